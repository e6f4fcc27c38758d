/* listen_address - the socket at which the keeper listens: HOST:PORT, or the path of a Unix socket. */
#ifndef MALLOCTAPE_KEEP_LISTEN_ADDRESS_H
#define MALLOCTAPE_KEEP_LISTEN_ADDRESS_H

#include <stdbool.h>

#include "common/error.h"

/* Opens a socket that listens. An address that is not a loopback one is refused unless
 * `for_everybody`. *is_path: it is a Unix socket, at `address` itself. -1: see error. */
int listen_address_open(const char *address, bool for_everybody, bool *is_path,
                        struct error *error);

#endif
