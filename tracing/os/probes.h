/* probes - places that bpftrace, perf and SystemTap can watch (USDT), without a recording, too.
 *
 * Each is a nop and a note in the library; docs/inside.md lists them with their arguments. None is
 * on the fast path. Where sys/sdt.h is missing (package systemtap-sdt-dev), there are none. */
#ifndef MALLOCTAPE_PROBES_H
#define MALLOCTAPE_PROBES_H

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define PROBE(name, first, second) DTRACE_PROBE2(malloctape, name, first, second)
#else
#define PROBE(name, first, second) ((void)(first), (void)(second))
#endif

#endif
