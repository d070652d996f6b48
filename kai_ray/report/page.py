"""The page around a report: one file that needs nothing else and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2330;--soft:#667085;--line:#e3e7ee;
--card:#f7f8fb;--c0:#2f6fed;--c1:#12a594;--c2:#e5873a;--c3:#8b5cf6;--c4:#d6455d;--c5:#b7bfcc}
@media(prefers-color-scheme:dark){:root{--ground:#12161d;--ink:#e6e9ef;--soft:#98a2b3;
--line:#2a313c;--card:#1a2029;--c0:#6b9dff;--c1:#3ecfbb;--c2:#f5a866;--c3:#b095ff;--c4:#f27d90;
--c5:#4b5565}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:960px;padding:32px 24px 64px;background:var(--ground);
color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:24px;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:16px;margin:36px 0 10px}
.sub{color:var(--soft);margin:0 0 20px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(190px,45%),1fr));
gap:12px;margin:20px 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
.card b{display:block;font-size:21px;font-weight:600;white-space:nowrap;
font-variant-numeric:tabular-nums}
.card span{color:var(--soft);font-size:13px}
.note{border-left:3px solid var(--c2);background:var(--card);padding:8px 12px;margin:12px 0;
border-radius:0 6px 6px 0}
svg{width:100%;height:auto;display:block;overflow:visible}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}
svg .label{fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1}
.line{fill:none;stroke-width:1.8}
.area{stroke:none;fill-opacity:.22}
rect.c0,path.area.c0{fill:var(--c0)}rect.c1,path.area.c1{fill:var(--c1)}
rect.c2,path.area.c2{fill:var(--c2)}rect.c3,path.area.c3{fill:var(--c3)}
rect.c4,path.area.c4{fill:var(--c4)}rect.c5,path.area.c5{fill:var(--c5)}
.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}
.line.c3{stroke:var(--c3)}.line.c4{stroke:var(--c4)}.line.c5{stroke:var(--c5)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:6px 0 0;padding:0 0 0 44px;
color:var(--soft);font-size:13px}
.legend li::before{content:"";display:inline-block;width:10px;height:10px;border-radius:3px;
margin-right:6px;background:currentColor}
.legend .c0::before{background:var(--c0)}.legend .c1::before{background:var(--c1)}
.legend .c2::before{background:var(--c2)}.legend .c3::before{background:var(--c3)}
.legend .c4::before{background:var(--c4)}.legend .c5::before{background:var(--c5)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:6px 20px 6px 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:break-word}
th{color:var(--soft);font-weight:500;white-space:nowrap}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tfoot td{font-weight:600;border-bottom:0}
footer{margin-top:48px;color:var(--soft);font-size:13px}
@media print{body{padding:0}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, subtitle: str, parts: Iterable[str], made: str) -> str:
    """`parts` are HTML already; `title`, `subtitle` and `made` are text."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="sub">{escape(subtitle)}</p>\n'
        + "\n".join(parts)
        + f"\n<footer>{escape(made)}</footer>\n</body></html>\n"
    )


def cards(rows: Iterable[tuple[str, str]]) -> str:
    """(figure, what it is)."""
    inner = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for value, name in rows
    )
    return f'<div class="cards">{inner}</div>'


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{content}</section>" if content else ""


def note(text: str) -> str:
    return f'<p class="note">{escape(text[:1].upper() + text[1:])}</p>' if text else ""


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[bool],
    foot: Sequence[str] | None = None,
) -> str:
    """`numbers`: which columns are set to the right."""

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f"<{tag}{' class=n' if right else ''}>{escape(cell)}</{tag}>"
            for cell, right in zip(cells, numbers, strict=True)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    if not body:
        return ""
    end = f"<tfoot>{line(foot, 'td')}</tfoot>" if foot else ""
    head = line(heads, "th")
    return f'<div class="wide"><table><thead>{head}</thead><tbody>{body}</tbody>{end}</table></div>'
