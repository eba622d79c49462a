#!/bin/sh
# Load the three kinds of streams of a gRPC service:
#
#   ./streams.sh http://127.0.0.1:8080
#
# The service describes itself by reflection; without that, add --proto FILE. A call over TLS is an
# https:// URL, and --h3 sends the same calls over HTTP/3.

server=${1:?usage: streams.sh URL}
library=trilane.library.v1.Library

# Both ways: each call sends 20 messages, up to ten of them ahead of their answers. The latency of a
# message runs to its own answer. {rand:…} names another book in every message.
trilane load --grpc $library/LookUpBooks -b '{"name": "shelves/{rand:1-10}/books/{rand:1-100}"}' \
    --messages 20 --messages-in-flight 10 -c 1 -m 8 -n 1000 "$server"

# From the client: one call brings 5 new books, and the server answers once.
trilane load --grpc $library/ImportBooks \
    -b '{"parent": "shelves/1", "book": {"title": "Ulysses", "author": "James Joyce"}}' \
    --messages 5 -c 1 -m 4 -n 1000 "$server"

# From the server, without an end: 20 watchers stay for the whole run, so no call is over and all are
# abandoned at its end. The result is their messages; --warmup 0s counts the first ones, too.
trilane load --grpc $library/WatchBooks -b '{"parent": "shelves/2", "follow": true}' \
    -c 2 -m 10 -d 10s --warmup 0s "$server"
