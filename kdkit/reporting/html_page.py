"""The page around a report: its style and its outer frame."""

import string

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b2430; --muted: #5d6976; --rule: #dfe4ea;
  --soft: #f5f7f9; --teacher: #68737f; --control: #b8500b;
  --student: #0a63c2;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #14181d; --ink: #e6eaee; --muted: #9aa5b1; --rule: #2d353e;
    --soft: #1c2229; --teacher: #a3aeb9; --control: #f39a58;
    --student: #6bb1ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1100px; padding: 2.5rem 1.5rem 4rem;
  background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; }
h2 {
  margin: 3rem 0 .75rem; padding-top: 1rem; font-size: 1.2rem;
  border-top: 1px solid var(--rule);
}
h3 { margin: .5rem 0 .6rem; font-size: .95rem; font-weight: 600; }
p, ul { margin: .5rem 0; }
.kind, .about, .note, figcaption { color: var(--muted); }
.kind { margin: 0 0 .25rem; font-size: .85rem; }
.about { margin: .35rem 0 0; }
.about span + span::before { content: " · "; }
.verdict { margin: 1.5rem 0 0; max-width: 46em; font-size: 1.2rem; }
.note, figcaption { font-size: .875rem; }
ul.note { padding-left: 1.1em; max-width: 60em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .925rem; }
.wide table { width: 100%; }
th, td {
  padding: .38rem .6rem; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums;
}
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
th.name, td.name { text-align: left; }
thead th {
  font-weight: 600; vertical-align: bottom; white-space: normal;
  border-bottom: 1px solid var(--muted);
}
thead small { display: block; color: var(--muted); font-weight: 400; }
tbody th { font-weight: 400; }
tbody tr.first > * { border-top: 1px solid var(--rule); padding-top: .55rem; }
tbody:first-of-type tr.first > * { border-top: 0; }
tbody tr.last > * { padding-bottom: .55rem; }
tr.first th { font-weight: 600; }
tr.file th.name { padding-left: 1.2em; }
td.empty { color: var(--muted); }
.dot {
  display: inline-block; width: .6em; height: .6em; margin-right: .5em;
  border-radius: 50%; background: currentColor;
}
.teacher .dot { color: var(--teacher); }
.control .dot { color: var(--control); }
.student .dot { color: var(--student); }
.two { display: grid; gap: 1.5rem 2rem; }
.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.stages { display: flex; flex-wrap: wrap; gap: 1.5rem 1.25rem; }
.stage { flex: 0 1 auto; min-width: 0; }
.curves { display: flex; flex-wrap: wrap; gap: .75rem 1.25rem; }
.curves > svg { width: 330px; }
figure { margin: 0; }
svg { display: block; width: 100%; max-width: 100%; height: auto; }
.two svg { max-width: 520px; }
details { margin: .5rem 0; }
summary { cursor: pointer; }
pre {
  margin: .5rem 0; padding: .75rem 1rem; overflow-x: auto;
  background: var(--soft); border-radius: 6px;
  font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}
dl { display: grid; grid-template-columns: max-content 1fr; margin: .5rem 0; }
dt { padding-right: 1.5rem; color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  body { padding: 1.25rem 1rem 3rem; }
  h1 { font-size: 1.5rem; }
  .verdict { font-size: 1.08rem; }
  .wide { margin: 0 -1rem; }
  .curves, .stage, .curves > svg { width: 100%; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .4rem; }
  th.name, th.name:first-child {
    position: sticky; left: 0; padding-left: 1rem; background: var(--page);
  }
  tr.file th.name { padding-left: 2.25rem; }
  th:last-child, td:last-child { padding-right: 1rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 { margin-top: 1.5rem; }
  .two { grid-template-columns: 1fr 1fr; }
  .curves > svg { width: 210px; }
  table { font-size: 8.5pt; }
  th, td { padding: .25rem .4rem; }
  h2 { break-after: avoid; }
  figure, .stage, tr, svg { break-inside: avoid; }
  pre { white-space: pre-wrap; }
}
"""

PAGE = string.Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
</body>
</html>
""")
