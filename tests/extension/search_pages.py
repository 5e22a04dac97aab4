"""Pages of results that look as the real ones did in 2026 wherever a rule looks: marks, redirects, advertisements,
boxes between the results. No page was copied; what they say is made up."""

import base64
from collections.abc import Callable, Sequence
from html import escape
from urllib.parse import quote

HITS = [f"https://result-{i}.example/page?x=1" for i in range(1, 6)]
AD = "https://shop.example/buy"


def joined(rows: Sequence[str]) -> str:
    return "\n".join(rows)


def google(query: str) -> str:
    hop = f"/url?sa=t&source=web&rct=j&opi=89978449&url={quote(HITS[0], safe='')}&usg=AOvVaw0"
    links = [hop, *(f"{url}#:~:text=part" for url in HITS[1:])]
    result = (
        '<div class="MjjYud"><div class="g Ww4FFb vt6azd" data-hveid="CAAQAA"><div class="yuRUbf"><div>'
        '<span jscontroller="msmzHf"><a jsname="UWckNb" href="{}" ping="/url?sa=t"><h3 class="LC20lb MBeuO DKV0Md">'
        'more</h3><div class="notranslate"><cite>result.example</cite></div></a></span>'
        '<a class="fl" href="/search?q=related:x">More like this</a></div></div></div></div>'
    )
    rows = [result.format(escape(link)) for link in links]
    ad = f'<a class="sVXRqc" href="/aclk?sa=l&adurl={quote(AD)}"><div role="heading">ad</div><h3>ad</h3></a>'
    asked = (
        '<div class="related-question-pair" data-q="why?"><div role="button">why?</div>'
        f'<div class="yuRUbf"><a href="{AD}/answer"><h3>an answer</h3></a></div></div>'
    )
    between = f'<div class="uEierd" data-text-ad="1"><a href="{AD}"><h3>ad</h3></a></div>'
    related = '<a href="/search?q=further+search&sa=X"><h3>People also search for</h3></a>'
    tabs = f'<a href="/imghp"><h3>no result</h3></a><a href="/search?q={quote(query)}&udm=2">Images</a>'
    return (
        f'<form action="/search"><textarea name="q">{escape(query)}</textarea></form><div id="hdtb">{tabs}</div>'
        f'<div id="center_col"><div id="tads">{ad}</div><div id="search"><div id="rso">'
        f'{rows[0]}{between}{asked}{joined(rows[1:])}{related}</div></div><div id="bottomads">{ad}</div></div>'
        f'<a id="pnnext" href="/search?q={quote(query)}&start=10">Next</a>'
    )


def bing(query: str) -> str:
    packed = [base64.urlsafe_b64encode(url.encode()).decode().rstrip("=") for url in HITS]
    hops = [f"https://www.bing.com/ck/a?!&&p=0c1d&ptn=3&ver=2&hsh=4&fclid=11&u=a1{one}&ntb=1" for one in packed]
    rows = [
        f'<li class="b_algo" data-id iid="SERP.5{i}"><div class="b_tpcn"><a class="tilk" href="{escape(hop)}">'
        f'<cite>result.example</cite></a></div><h2><a href="{escape(hop)}" h="ID=SERP,51{i}.1">r</a>'
        '</h2><div class="b_caption"><p>about it</p></div></li>'
        for i, hop in enumerate(hops)
    ]
    hidden = '<li class="b_algo"><div class="b_adSlug">Ad</div><h2><a href="https://www.bing.com/aclick?ld=e8">ad</a></h2></li>'
    ad = '<li class="b_ad b_adTop"><ul><li><h2><a href="https://www.bing.com/aclick?ld=e8">ad</a></h2></li></ul></li>'
    news = '<li class="b_ans"><div class="b_algo"><h2><a href="https://news.example/">news</a></h2></div></li>'
    return (
        f'<form action="/search"><input id="sb_form_q" name="q" value="{escape(query)}"></form>'
        f'<main><ol id="b_results">{ad}{hidden}{rows[0]}{news}{joined(rows[1:])}<li class="b_pag"><a class="sb_pagN" '
        f'href="/search?q={quote(query)}&first=11&FORM=PERE">Next</a></li></ol></main>'
    )


def duckduckgo(query: str) -> str:
    result = (
        '<li data-layout="{0}"><article id="r1-0" data-testid="{0}" data-nrn="{0}"><h2><a data-testid="result-title-a" '
        'data-handled-by-react="true" href="{1}"><span>r</span></a></h2><a data-testid="result-extras-url-link" '
        'href="{1}">result.example</a></article></li>'
    )
    rows = [result.format("result", escape(url)).replace('"result"', '"organic"', 1) for url in HITS]
    ad = result.format("ad", escape(f"https://duckduckgo.com/y.js?ad_domain=shop.example&u3={quote(AD)}"))
    return (
        f'<form id="search_form" action="/"><input name="q" value="{escape(query)}"></form>'
        '<section data-testid="mainline"><ol class="react-results--main" data-testid="web-vertical">'
        f"{ad}{joined(rows)}</ol></section>"
    )


def duckduckgo_html(query: str) -> str:
    """Its page without scripts, which is posted."""
    result = (
        '<div class="result results_links results_links_deep {}"><div class="links_main"><h2 class="result__title">'
        '<a rel="nofollow" class="result__a" href="{}">r</a></h2>'
        '<a class="result__snippet" href="#">about it</a></div></div>'
    )
    hop = "//duckduckgo.com/l/?uddg={}&rut=5ad0"
    ad = "https://duckduckgo.com/y.js?ad_domain=shop.example"
    rows = [result.format("result--ad", escape(hop.format(quote(ad, safe=""))))]
    rows += [result.format("web-result", escape(hop.format(quote(url, safe="")))) for url in HITS]
    return (
        f'<form action="/html/" method="post"><input class="search__input" name="q" value="{escape(query)}">'
        f'<input type="submit" class="search__button" value="S"></form><div id="links">{joined(rows)}</div>'
    )


def brave(query: str) -> str:
    """Searches anew without a page being loaded, from its first page on."""
    result = (
        '<div class="snippet svelte-1m8a" data-type="{}" data-pos="1"><div class="result-wrapper">'
        '<a href="{}" class="svelte-14r2 l1"><div class="title search-snippet-title">r</div></a></div></div>'
    )
    rows = [result.format("ad", "https://search.brave.com/a/redirect?click_url=x")]
    rows += [result.format("web", url) for url in HITS]
    found = f'<div id="results">{joined(rows)}</div>' if query else "<p>The first page</p>"
    script = """
      document.querySelector("form").addEventListener("submit", (event) => {
        event.preventDefault();
        const wanted = document.querySelector("#searchbox").value;
        history.pushState({}, "", `/search?q=${encodeURIComponent(wanted)}&source=web`);
        document.querySelector("main").innerHTML = document.querySelector("template").innerHTML;
      });"""
    return (
        f'<form action="/search"><input id="searchbox" name="q" value="{escape(query)}"></form><main>{found}</main>'
        f'<template><div id="results">{joined(rows)}</div></template><script>{script}</script>'
    )


def startpage(query: str) -> str:
    result = (
        '<div class="result css-o7i03b"><div class="upper"><a class="wgl-display-url" href="{0}">result</a></div>'
        '<a class="result-title result-link css-1bggj8v" href="{0}" data-testid="gl-title-link">'
        '<h2 class="wgl-title">r</h2></a><p class="description">about it</p>'
        '<a class="anonymous-view" href="https://eu-browse.startpage.com/av">view</a></div>'
    )
    rows = [result.format(url) for url in HITS]
    ad = f'<div class="a-gl-result"><a class="result-link" href="{AD}"><h2>ad</h2></a></div>'
    return (
        f'<form method="post" action="/sp/search"><input id="q" name="query" value="{escape(query)}">'
        f'<button>S</button></form><div class="a-gl">{ad}</div><div class="w-gl">{joined(rows)}</div>'
    )


def wikipedia(query: str) -> str:
    row = (
        '<li class="mw-search-result mw-search-result-ns-0"><div class="searchResultImage-text">'
        '<div class="mw-search-result-heading"><a href="/wiki/Result_{0}" title="r" data-serp-pos="{0}">r</a>'
        '<span class="searchalttitle">(redirect from <a href="/wiki/Other_{0}" class="mw-redirect">other</a>)</span>'
        "</div></div></li>"
    )
    return (
        f'<form id="search" action="/w/index.php"><input name="search" value="{escape(query)}"></form>'
        '<div class="mw-search-results-info"><a href="/w/index.php?title=Nothing&action=edit">create it</a></div>'
        f'<ul class="mw-search-results">{joined([row.format(i) for i in range(5)])}</ul>'
        '<div id="mw-interwiki-results"><div class="iw-result__title"><a href="https://species.example/">r</a></div></div>'
    )


def open_library(query: str) -> str:
    row = (
        '<li class="searchResultItem"><span class="bookcover"><a href="/works/{0}"><img alt="cover"></a></span>'
        '<h3 itemprop="name" class="booktitle"><a itemprop="url" href="/works/{0}" class="results">r</a></h3></li>'
    )
    rows = [row.format(url.split("/")[2]) for url in HITS]
    return f'<form><input name="q" value="{escape(query)}"></form><ul class="list-books">{joined(rows)}</ul>'


def plain(query: str) -> str:
    found = joined([f'<a href="{url}"><h3>r</h3></a>' for url in HITS])
    return f'<form><input name="q" value="{escape(query)}"></form><div id="search">{found}</div>'


def restless(query: str) -> str:
    """Makes up a search of its own."""
    made_up = """addEventListener("load", () => history.pushState({}, "", "/search?q=made+up"))"""
    return f"{google(query)}<script>{made_up}</script>"


def guessing(query: str) -> str:
    """Asks the browser to have a page of results ready."""
    rules = '{"prerender": [{"source": "list", "eagerness": "immediate", "urls": ["/search?q=guessed"]}]}'
    return f'<script type="speculationrules">{rules}</script><a href="/search?q=guessed">guessed</a>'


PAGES: dict[str, Callable[[str], str]] = {
    "www.google.com": google,
    "www.google.co.nz": google,
    "www.google.is": restless,
    "www.bing.com": bing,
    "duckduckgo.com": duckduckgo,
    "html.duckduckgo.com": duckduckgo_html,
    "search.brave.com": brave,
    "www.startpage.com": startpage,
    "en.wikipedia.org": wikipedia,
    "openlibrary.org": open_library,
    "no-rule.example": plain,
}
