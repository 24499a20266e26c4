"""A duplicate filter for Scrapy that remembers requests in a Bloom filter of a server.

In the settings of a project:

    DUPEFILTER_CLASS = "bloom_dupefilter.BloomDupeFilter"
    BLOOM_DUPEFILTER_URL = "redis://127.0.0.1:6379/0"
    BLOOM_DUPEFILTER_KEY = "{spider}:seen"     # {spider} is the spider's name
    BLOOM_DUPEFILTER_ERROR_RATE = 0.0001       # this part of new requests, at most, is taken for seen
    BLOOM_DUPEFILTER_CAPACITY = 1_000_000      # requests that the filter is made for; it grows beyond
    BLOOM_DUPEFILTER_KEEP = False              # True: what an earlier run has seen is not fetched again

These are the defaults. Several crawlers that share a key share what they have seen: BF.INSERT answers for each
request whether it was the first one to bring it.

A request counts as seen from when it is scheduled. A crawl that is stopped half-way keeps its queue in Scrapy's
JOBDIR; with BLOOM_DUPEFILTER_KEEP and without JOBDIR, what was in the queue is never fetched. Scrapy exempts the
requests of start_urls from filtering; a spider whose own `start` yields them decides for itself.

It needs Scrapy and redis-py alone, so that you can copy this file into any project.
"""

import redis
from scrapy.dupefilters import RFPDupeFilter


class BloomDupeFilter(RFPDupeFilter):
    """Scrapy's own filter with another memory; what is logged and counted stays the same."""

    def __init__(self, client, key, error_rate, capacity, keep, **named):
        super().__init__(**named)
        self.client = client
        self.key = key
        # Made by the first request, and again should the key be deleted meanwhile.
        self.insert = ("BF.INSERT", key, "CAPACITY", capacity, "ERROR", error_rate, "ITEMS")
        self.keep = keep

    @classmethod
    def from_crawler(cls, crawler):
        settings = crawler.settings
        name = "BLOOM_DUPEFILTER_"
        key = settings.get(f"{name}KEY", "{spider}:seen")
        return cls(
            redis.Redis.from_url(settings.get(f"{name}URL", "redis://127.0.0.1:6379/0")),
            key.format(spider=crawler.spider.name),
            settings.getfloat(f"{name}ERROR_RATE", 0.0001),
            settings.getint(f"{name}CAPACITY", 1_000_000),
            settings.getbool(f"{name}KEEP"),
            debug=settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
        )

    def open(self):
        # An error if the key holds something else, which is not ours to delete.
        self.client.execute_command("BF.EXISTS", self.key, b"")
        if not self.keep:
            self.client.unlink(self.key)

    def request_seen(self, request):
        (is_new,) = self.client.execute_command(*self.insert, self.fingerprinter.fingerprint(request))
        return not is_new

    def close(self, reason):
        self.client.close()
        super().close(reason)
