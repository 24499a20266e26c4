#!/usr/bin/env python3
"""A crawler's memory of the URLs it has seen, in a Bloom filter, held against an exact set.

Every line of the input is a URL that a crawler met. Each goes through `Bloom.add` of the package libbloom, whose
answer says whether the crawler should fetch it: True for a URL that is new, False for one that it has
(probably) seen. A filter may take a new URL for a seen one, at no more than the rate it was made with; it
never forgets one. The script checks both, and its exit code is 1 when either promise is broken (2 when it
could not run at all).

Without --url it starts a server of its own on a free port of the loopback interface, with its data in a
temporary directory, and stops it at the end.
"""

import argparse
import sys

import redis
import support
from libbloom import Bloom, FullError
from support import Trouble
from tqdm import tqdm


def main():
    options = parse_arguments()
    try:
        urls = support.read_urls(options.urls)
        if not urls:
            raise Trouble(f"no URLs in {options.urls}")
        if options.url:
            promises = crawl(support.connect(options.url), None, urls, options)
        else:
            with support.Server(options.server, options.module) as server:
                promises = crawl(server.client(), server, urls, options)
    except (Trouble, OSError, redis.RedisError, FullError) as trouble:
        print(f"crawl.py: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return promises.report()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    support.add_urls_argument(parser, "URLs")
    parser.add_argument("--error", type=float, default=0.01, help="error rate (default: %(default)s)")
    parser.add_argument(
        "--capacity", type=support.positive, default=10_000, help="first capacity; it grows (default: %(default)s)"
    )
    parser.add_argument(
        "--batch",
        type=support.positive,
        default=1,
        metavar="N",
        help="URLs that are added at once, such as the links of a page (default: %(default)s)",
    )
    parser.add_argument("--key", default="crawl:seen", help="where the filter goes (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="with --url: leave the filter there at the end")
    parser.add_argument("--url", help="a running server with the module, e.g. redis://127.0.0.1:6379/0")
    parser.add_argument(
        "--restart", action="store_true", help="SAVE, restart the server from the RDB file, check again"
    )
    support.add_server_arguments(parser)
    options = parser.parse_args()
    if options.url and options.restart:
        parser.error("--restart needs a server of the script's own, so it does not go with --url")
    return options


def crawl(client, server, urls, options):
    """Fills a filter, checks it, and checks it again after a restart where one was asked for."""
    support.require_filters(client, options.key)
    if client.exists(options.key):
        raise Trouble(f"{options.key} exists; --key names another")
    seen = Bloom(client, options.key, capacity=options.capacity, error_rate=options.error)
    try:
        promises = support.Promises()
        exact, reported = fill(seen, urls, options, promises)

        support.check_members(client, options.key, exact, promises, "after the crawl")
        support.check_strangers(client, options.key, exact, options.error, promises)
        describe_filter(seen, exact)

        if options.restart:
            client.save()
            server.restart()
            support.check_members(client, options.key, exact, promises, "after the restart")
        promises.add(len(seen) == reported, f"BF.CARD is {len(seen):,}, and {reported:,} URLs were reported new")
        return promises
    finally:
        if options.url and not options.keep:
            client.unlink(options.key)


def fill(seen, urls, options, promises):
    """Adds every URL; gives the exact set and how many were reported new."""
    exact = set()
    reported = false_positives = repeated = 0
    with tqdm(total=len(urls), unit=" URLs", desc="added", disable=None) as bar:
        for some in support.batches(urls, options.batch):
            answers = [seen.add(some[0])] if len(some) == 1 else seen.add_many(some)
            for url, is_new in zip(some, answers):
                reported += is_new
                false_positives += not is_new and url not in exact
                repeated += is_new and url in exact
                exact.add(url)
            bar.update(len(some))

    print(f"{len(urls):,} lines, {len(exact):,} distinct URLs, {reported:,} reported new")
    promises.add(repeated == 0, f"URLs reported new a second time: {repeated:,}")
    promises.add_rate("new URLs taken for seen ones", false_positives, len(exact), options.error)
    return exact, reported


def describe_filter(seen, exact):
    info = seen.info()
    print(
        f"capacity {info.capacity:,}, {info.items:,} items, {info.layers} layer(s), {info.size_in_bytes:,} bytes"
    )
    print(
        f"a URL takes {8 * info.size_in_bytes / len(exact):.1f} bits in the filter; "
        f"the URLs themselves have {sum(map(len, exact)):,} bytes"
    )


if __name__ == "__main__":
    sys.exit(main())
