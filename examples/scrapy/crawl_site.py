#!/usr/bin/env python3
"""Crawls a site with Scrapy, each page once, and remembers the pages in a Bloom filter.

    crawl_site.py http://127.0.0.1:8000/ --redis redis://127.0.0.1:6379/0          from the start
    crawl_site.py http://127.0.0.1:8000/ --redis redis://127.0.0.1:6379/0 --keep   only pages that are new

bloom_dupefilter.py is what makes Scrapy do so, and has all of its settings.
"""

import argparse
import sys
from urllib.parse import urlsplit

import redis
import scrapy
from scrapy.crawler import CrawlerProcess


class SiteSpider(scrapy.Spider):
    """Follows every link that stays on the site."""

    name = "site"

    async def start(self):
        # Not exempt from the filter, as Scrapy's own would be: a kept filter knows this page too.
        yield scrapy.Request(self.url)

    def parse(self, response):
        for link in response.css("a::attr(href)"):
            url = response.urljoin(link.get())
            if urlsplit(url).netloc == urlsplit(self.url).netloc:
                yield scrapy.Request(url)


def rate(text):
    number = float(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="the page to start with")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/0", help="(default: %(default)s)")
    parser.add_argument("--key", default="{spider}:seen", help="of the filter (default: %(default)s)")
    parser.add_argument("--error", type=rate, default=0.0001, help="error rate (default: %(default)s)")
    parser.add_argument("--capacity", type=positive, default=1_000_000, help="first capacity (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="skip what earlier runs have seen")
    options = parser.parse_args()
    try:
        check(options)
    except (redis.RedisError, ValueError, LookupError) as error:
        print(f"crawl_site.py: {error}", file=sys.stderr)
        return 2

    process = CrawlerProcess(
        {
            "DUPEFILTER_CLASS": "bloom_dupefilter.BloomDupeFilter",
            "BLOOM_DUPEFILTER_URL": options.redis,
            "BLOOM_DUPEFILTER_KEY": options.key,
            "BLOOM_DUPEFILTER_ERROR_RATE": options.error,
            "BLOOM_DUPEFILTER_CAPACITY": options.capacity,
            "BLOOM_DUPEFILTER_KEEP": options.keep,
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    crawler = process.create_crawler(SiteSpider)
    process.crawl(crawler, url=options.url)
    process.start()
    figures = crawler.stats.get_stats()
    print(f"{figures.get('response_received_count', 0):,} pages fetched")
    print(f"{figures.get('dupefilter/filtered', 0):,} requests for pages that were seen")
    failed = figures.get("log_count/ERROR", 0)
    return 1 if failed or figures.get("finish_reason") != "finished" else 0


def check(options):
    """Raises what Scrapy would show as a trace for each request, and go on."""
    parts = urlsplit(options.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{options.url} is no address of a page, as http://127.0.0.1:8000/ is")
    key = options.key.format(spider=SiteSpider.name)
    try:
        client = redis.Redis.from_url(options.redis)
    except ValueError:
        # redis-py's own text may show a part of the password.
        raise ValueError("--redis: the URL must specify redis://user:password@host:port, the password percent-encoded") from None
    with client:
        try:
            client.execute_command("BF.EXISTS", key, b"")
        except redis.ResponseError as error:
            if str(error).lower().startswith("unknown command "):
                raise ValueError("the server has no BF.EXISTS: load the module there") from None
            raise ValueError(f"{key}: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
