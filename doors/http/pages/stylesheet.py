"""The one stylesheet of the pages: light and dark by the reader's setting, one column on a phone."""

from __future__ import annotations

from typing import Final

STYLESHEET: Final = """
:root { color-scheme: light dark; --text: #1c2126; --quiet: #59636e; --ground: #ffffff; --raised: #f4f6f8;
  --line: #d3d9df; --link: #0b57a4; --good: #116329; --warn: #8a4b00; --bad: #b3151d; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e7eb; --quiet: #a0abb6; --ground: #14181c; --raised: #1f252b;
  --line: #3a434c; --link: #82bbf5; --good: #63c97c; --warn: #e9ab55; --bad: #ff8f8a; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 8px; top: 8px; background: var(--ground); padding: 8px; }
header { background: var(--raised); border-bottom: 1px solid var(--line); padding: 10px 20px; }
header p { margin: 0; overflow-wrap: anywhere; } header strong { font-size: 17px; }
nav ul { list-style: none; margin: 6px 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 16px; }
nav a { display: inline-block; padding: 3px 0; } nav a[aria-current] { color: var(--text); font-weight: 600; }
main { padding: 8px 20px 40px; max-width: 1500px; }
h1 { font-size: 22px; margin: 14px 0 8px; overflow-wrap: anywhere; } h2 { font-size: 16px; margin: 24px 0 6px; }
.scroll { overflow-x: auto; margin: 20px 0; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
caption { text-align: left; font-weight: 600; font-size: 16px; padding: 8px 10px; }
th, td { text-align: left; vertical-align: top; padding: 5px 10px; border-top: 1px solid var(--line); }
td { max-width: 60ch; overflow-wrap: break-word; } th { background: var(--raised); white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 2px 24px; margin: 12px 0; }
dl div { border-bottom: 1px solid var(--line); padding: 5px 0; } dt { color: var(--quiet); font-size: 13px; }
dd { margin: 0; overflow-wrap: anywhere; }
pre, code, textarea { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: 10px; overflow-x: auto; }
td pre { min-width: 26ch; max-height: 12em; margin: 0; border: 0; padding: 0; background: none; white-space: pre-wrap; }
td pre.tree { white-space: pre; max-height: none; }
textarea { width: 100%; min-height: 8em; color: inherit; background: var(--raised); border: 1px solid var(--line);
  border-radius: 6px; padding: 8px; }
input[type=search] { font: inherit; color: inherit; background: var(--raised); border: 1px solid var(--line);
  border-radius: 6px; padding: 6px 8px; max-width: 100%; }
button { font: inherit; padding: 6px 14px; border-radius: 6px; border: 1px solid var(--line); color: var(--text);
  background: var(--raised); cursor: pointer; min-height: 32px; } td form { margin: 0; }
.health { padding: 10px 14px; border-radius: 6px; border: 1px solid; border-left-width: 6px; font-weight: 600; }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); } .quiet { color: var(--quiet); }
meter { width: 120px; vertical-align: middle; }
figure { margin: 8px 0 24px; overflow-x: auto; } figcaption { color: var(--quiet); font-size: 13px; }
svg { max-width: 100%; height: auto; color: var(--text); }
@media (max-width: 600px) { main, header { padding-left: 12px; padding-right: 12px; } dl { grid-template-columns: 1fr; }
  nav a { padding: 8px 0; } td { max-width: 40ch; } }
"""
