/* listen - an HTTP server that shows what the keeper knows; reading only.
 *
 *     /                     the page of `malloctape report`, of what is kept at present
 *     /metrics              OpenMetrics: memory, by owner and function, objects, calls by kind
 *     /debug/pprof/heap     for pprof: what is alive, by call stack
 *     /debug/pprof/allocs   the same, and all allocations that are kept
 *     /trace                the kept trace
 *
 * It listens at a loopback address or a Unix socket; at others only if whoever asks must know a
 * token. At most GUESTS_MAX connections at a time (guests.h), each with LISTEN_MEMORY for what it
 * sends, and only one answer that needs a trace is made: others get 503, also while LISTEN_SENDING
 * are being sent, whose files take disk.
 *
 * Threads   one for each connection, of libmicrohttpd. */
#ifndef MALLOCTAPE_KEEP_LISTEN_H
#define MALLOCTAPE_KEEP_LISTEN_H

#include "keep/keeper.h"

struct listen;

/* False: see error; the keeper goes on without it. */
bool listen_begin(struct listen **listener, struct keeper *keeper, struct error *error);

/* NULL is ignored. */
void listen_end(struct listen *listener);

#endif
