"""The style sheet of the page: light and dark by the reader's system setting, one column on a phone."""

from __future__ import annotations

from typing import Final

CSS: Final = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --shade: #f6f8fa; --link: #0a5cad;
  --good: #116329; --good-back: #dafbe1; --bad: #a40e26; --bad-back: #ffebe9; --wait: #7d4e00; --wait-back: #fff4d6;
  --c0: #0072b2; --c1: #56b4e9; --c2: #3a4e9f; --c3: #009e73; --c4: #e69f00; --c5: #d55e00; --c6: #cc79a7;
  --c7: #7b5cb8; --c8: #8a939d; --c9: #a57c35;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1318; --ink: #e4e8ec; --soft: #98a2ad; --line: #2d343c; --shade: #171c22; --link: #6cb6ff;
    --good: #6fdd8b; --good-back: #12321d; --bad: #ff938a; --bad-back: #45161a; --wait: #f0c66a; --wait-back: #3b2c0c;
    --c0: #2f9be0; --c1: #8fd0f7; --c2: #7f92ea; --c3: #1fbd8f; --c4: #eeb132; --c5: #ee7a2e; --c6: #dd94bb;
    --c7: #a48be0; --c8: #8d97a2; --c9: #c09a58;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif;
}
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .88em; background: var(--shade); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere; }
.layout { max-width: 1320px; margin: 0 auto; padding: 0 1.1rem 4rem; }
header { padding: 2.4rem 0 .4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.02em; }
h2 { font-size: 1.45rem; line-height: 1.25; margin: 0 0 .5rem; letter-spacing: -.01em; }
h3, figcaption { font-size: 1rem; font-weight: 600; margin: 1.8rem 0 .5rem; }
h5 { font-size: .82rem; font-weight: 600; margin: 0 0 .35rem; color: var(--soft); }
p { margin: .5rem 0; max-width: 76ch; }
.lead { color: var(--soft); }
nav { font-size: .92rem; margin: 1rem 0; padding: .8rem 1rem; border: 1px solid var(--line); border-radius: 8px; }
nav b { display: block; margin-bottom: .3rem; }
nav ol { list-style: none; margin: 0; padding: 0; columns: 2 11rem; column-gap: 1.5rem; }
nav li { break-inside: avoid; display: flex; align-items: baseline; gap: .45rem; padding: .1rem 0; }
nav .count { color: var(--soft); font-size: .82rem; margin-left: auto; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
nav .count.bad { color: var(--bad); }
section { margin-top: 2.6rem; padding-top: 1.8rem; border-top: 1px solid var(--line); }
#summary { border-top: 0; margin-top: .6rem; padding-top: .6rem; }
@media (min-width: 1080px) {
  .layout { display: grid; grid-template-columns: 15rem minmax(0, 1fr); column-gap: 3rem; }
  header { grid-column: 2; }
  nav { grid-column: 1; grid-row: 1 / span 2; position: sticky; top: 1.5rem; align-self: start; margin-top: 2.6rem;
    max-height: calc(100vh - 3rem); overflow-y: auto; border: 0; padding: 0; }
  nav ol { columns: 1; }
  main { grid-column: 2; }
}
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.6rem, 1fr)); gap: .8rem; margin: 1rem 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.7rem; line-height: 1.2; letter-spacing: -.02em; }
.card span { color: var(--soft); font-size: .86rem; }
.card.good b { color: var(--good); }
.card.bad b { color: var(--bad); }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .75rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: baseline; }
th { font-weight: 600; color: var(--soft); vertical-align: bottom; border-bottom-width: 2px; }
td:first-child, th:first-child { padding-left: 0; }
th.number, td.number { text-align: right; white-space: nowrap; }
td.wide { min-width: 18rem; }
tbody tr:hover { background: var(--shade); }
.unit { color: var(--soft); font-weight: 400; }
.targets { width: 100%; max-width: 62rem; }
.targets td { padding-top: .32rem; padding-bottom: .32rem; }
.targets th:first-child { width: 6.4rem; }
.targets th:nth-child(2) { width: 42%; }
.targets th:nth-child(3) { width: 22%; }
.pill { display: inline-block; padding: .02rem .55rem; border-radius: 999px; font-size: .8rem; font-weight: 600;
  white-space: nowrap; }
.met { color: var(--good); background: var(--good-back); }
.missed, .failed { color: var(--bad); background: var(--bad-back); }
.skipped, .not-measured { color: var(--wait); background: var(--wait-back); }
.origin { margin: .8rem 0 1rem; padding: .7rem .95rem; background: var(--shade); border-radius: 8px; font-size: .84rem;
  display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem .9rem; }
.origin dt { color: var(--soft); }
.origin dd { margin: 0; overflow-wrap: anywhere; }
.origin code { background: none; padding: 0; font-size: .95em; }
.trouble { border-left: 4px solid var(--bad); background: var(--bad-back); padding: .6rem 1rem; margin: 1rem 0;
  border-radius: 0 8px 8px 0; }
.trouble.skipped { border-color: var(--wait); background: var(--wait-back); color: inherit; }
pre { overflow-x: auto; font-size: .78rem; line-height: 1.45; background: var(--shade); padding: .8rem 1rem;
  border-radius: 8px; }
figure { margin: 1.6rem 0; }
figcaption { margin: 0 0 .7rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 15rem), 1fr)); gap: 1.1rem 1.8rem; }
.panels > :only-child { grid-column: 1 / -1; max-width: 44rem; }
.panel svg { display: block; overflow: visible; }
svg text { font-size: 12px; fill: var(--ink); font-variant-numeric: tabular-nums; }
svg text.us { font-weight: 650; }
.columns text { font-size: 11px; fill: var(--soft); }
.columns { display: block; }
.track { fill: var(--shade); }
.grid { stroke: var(--line); stroke-width: 1; }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); }
.c4 { fill: var(--c4); } .c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); }
.c8 { fill: var(--c8); } .c9 { fill: var(--c9); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .84rem; margin-bottom: .5rem; }
.legend svg { margin-right: .4rem; vertical-align: -1px; }
.note { color: var(--soft); font-size: .82rem; }
details { margin: .9rem 0; }
summary { cursor: pointer; font-weight: 600; }
details > .scroll { margin-top: .5rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .84rem; }
@media (max-width: 640px) {
  body { font-size: 15px; }
  header { padding-top: 1.4rem; }
  h1 { font-size: 1.6rem; }
  .origin { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .origin dd { margin-bottom: .35rem; }
  .targets thead { display: none; }
  .targets tr { display: grid; grid-template-columns: 5.6rem minmax(0, 1fr); padding: .45rem 0;
    border-bottom: 1px solid var(--line); }
  .targets td { border: 0; padding: 0 0 .1rem; grid-column: 2; }
  .targets td:first-child { grid-column: 1; }
  .targets td[data-label]::before { content: attr(data-label) " "; color: var(--soft); }
}
@media print {
  nav { display: none; }
  section { break-inside: auto; }
  figure, tr, .origin { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
