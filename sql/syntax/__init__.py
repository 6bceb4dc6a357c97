"""Parses SQL text into trees and generates text from them: nyala's dialect on sqlglot, its statements and clauses."""
