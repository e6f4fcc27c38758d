/* notice - what a recording tells: on standard error, or to the `malloctape record` that started
 * the program.
 *
 * The latter gives a file (TCMALLOC_TRACE_REPORT). Lines are added to it, each with one write, so
 * those of several processes do not mix:
 *
 *     begin PROCESS DEVICE INODE OUTPUT
 *                                      a recording begins; OUTPUT goes to the end of the line, the
 *                                      numbers are those of the file that was made
 *     end PROCESS EVENTS OTHER TEXT    it has ended. OTHER: 1 if malloc is another library's;
 *                                      TEXT: the summary
 *     forget PROCESS                   it has ended, and its output is removed
 *     unfollowed PROCESS NAME          it is not recorded, unlike what started it; NAME: program,
 *                                      or nothing after a fork
 *     other_libc PROCESS NAME          this program, which the process starts, is not recorded
 *     unreadable PROCESS NAME          the same, as it could not load the library
 *     malloctape: TEXT                 to be shown at once
 *     keeping PROCESS DIRECTORY        of its keeper (keep/each.h), whose other lines are shown;
 *                                      nothing: it keeps nothing
 *
 * A line break in a name is a null byte here.
 *
 * When the file is gone, so is its reader: then errors go to standard error, and nothing else is
 * reported. */
#ifndef MALLOCTAPE_NOTICE_H
#define MALLOCTAPE_NOTICE_H

#include "tracing/data/message.h"

/* Writes one of the lines above to the file, if there is one; arguments as of message_put(). */
void notice_for_record(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write an error for people: a message that has not been ended, or arguments as of message_put(). On
 * standard error not if TCMALLOC_TRACE_QUIET is set; `record` is told in any case. */
void notice_line(struct message *message);
void notice_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
