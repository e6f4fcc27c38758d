/* recorder_edge - compiled and linked twice, before the recorder's files and behind them, with EDGE as
 * begin and end (Makefile.inc): tracing/writer/recorder_edge.h. */

#pragma GCC visibility push(hidden)

#define EDGE_PASTE(of, edge) recorder_##of##_##edge
#define EDGE_NAME(of, edge)  EDGE_PASTE(of, edge)

void EDGE_NAME(code, EDGE)(void);
extern const char EDGE_NAME(constants, EDGE)[1];
extern char EDGE_NAME(variables, EDGE)[1];

void EDGE_NAME(code, EDGE)(void) {}
const char EDGE_NAME(constants, EDGE)[1] = {1};
char EDGE_NAME(variables, EDGE)[1];
