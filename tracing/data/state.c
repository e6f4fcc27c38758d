#include "tracing/data/state.h"

struct malloctape_lane recording_no_lane;
MALLOCTAPE_THREAD_LOCAL struct malloctape_lane *malloctape_lane = &recording_no_lane;
uint32_t malloctape_state, malloctape_may_begin;
struct recording recording;
struct control control;
uint64_t no_access_bits[NO_ACCESS_BITS / 64];
