"""Fonts for pictures: which of those installed has the signs that others lack.  Needs matplotlib."""

from __future__ import annotations

from functools import cache

# looked for in this order
CJK_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei"),
    *("WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS"),
    *("Droid Sans Fallback", "AR PL UMing CN", "IPAGothic", "Noto Serif CJK SC"),
)


@cache
def cjk_font() -> str | None:
    """An installed font that has Chinese, Japanese and Korean signs, or None."""
    from matplotlib import font_manager

    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return next((name for name in CJK_FONTS if name in installed), None)
