#include "report/interactive.h"

#include <ctype.h>
#include <curses.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/printable.h"
#include "report/by_code_lives.h"
#include "report/by_code_place.h"
#include "report/interactive_view.h"
#include "report/time_word.h"
#include "report/words.h"

enum { HEAD_LINES = 2, FOOT_LINES = 1, INDENT = 2, INPUT_BYTES = 64, COLUMNS_WIDE = 64 };
enum { KEY_ESCAPE = 27, KEY_NEW_LINE = '\n', KEY_RETURN = '\r', KEY_CONTROL_L = 12 };

/* What lies over the lines until the next key. */
enum overlay { OVERLAY_NONE, OVERLAY_HELP, OVERLAY_LIVES };

struct screen {
    struct view view;
    const char *name, *said;
    size_t cursor, top; /* lines of the view */
    enum overlay overlay;
};

static const char *const keys_help[] = {
    "Tab, 1 2 3       table, tree from the outside in, callers from the inside out",
    "up down j k      line; PgUp PgDn Home End",
    "Enter, right     opens a branch or closes it; left closes it; in the table: callers",
    "m, M             the next number, the one before: bytes, objects, alive at the peak ...",
    "s                sorts the table by what functions make themselves, or with what they call",
    "/                shows only names with these letters; nothing: all",
    "t                a stretch of time: from and to, as 1.5s 3s; nothing: all of it",
    "[ ]              the stretch before, the next one",
    "l                sizes and lifetimes of what the function makes, over all the time",
    "q                quits"};

/* ---- drawing ---- */

static int lines_shown(void)
{
    return LINES - HEAD_LINES - FOOT_LINES > 0 ? LINES - HEAD_LINES - FOOT_LINES : 1;
}

/* Puts a text into one line of the screen, cut at its width. */
static void put_line(int line, attr_t how, const char *text)
{
    move(line, 0);
    clrtoeol();
    attrset(how);
    addnstr(text, COLS > 1 ? COLS - 1 : 1);
    attrset(A_NORMAL);
}

static const char *screen_value(const struct view *view, double value)
{
    if (view_is_part(view) && view->number == VIEW_GROWN) return words_signed(UNIT_BYTES, value);
    return view_is_bytes(view) ? words_bytes((uint64_t)llround(fmax(value, 0)))
                               : words_count((uint64_t)llround(fmax(value, 0)));
}

static void draw_head(const struct screen *screen)
{
    static const char *const kinds[] = {"table", "tree", "callers"};
    const struct view *view = &screen->view;
    char text[512], time[80] = "";
    if (view_is_part(view)) {
        int used = snprintf(time, sizeof time, "  %s", words_ms(view_from_ns(view) / 1000000));
        snprintf(time + used, sizeof time - (size_t)used, " to %s",
                 words_ms(view_until_ns(view) / 1000000));
    }
    snprintf(text, sizeof text, "%.40s  %s: %s%s  %s%s", printable_text(screen->name),
             kinds[view->kind], view_number_words(view), time,
             view->filter[0] != '\0' ? "with " : "", view->filter);
    put_line(0, A_BOLD, text);
    if (COLS < COLUMNS_WIDE)
        snprintf(text, sizeof text, "%11s %s",
                 view->kind == VIEW_TABLE && !view->sorts_total ? "itself" : "with calls",
                 by_code_rows(view->code));
    else
        snprintf(text, sizeof text, "%12s %8s %12s  %s", view->kind == VIEW_CALLERS ? "" : "itself",
                 "", view->kind == VIEW_CALLERS ? "made by" : "with calls",
                 view->kind == VIEW_TABLE ? by_code_rows(view->code) : "functions");
    put_line(1, A_UNDERLINE, text);
}

/* The name of a line, and behind it where it is. */
static void line_add_name(const struct view *view, const struct view_line *line, char *text,
                          size_t bytes)
{
    FILE *to = fmemopen(text, bytes, "w");
    if (to == NULL) return;
    const char *mark = !line->has_more ? "  " : line->is_open ? "- " : "+ ";
    fprintf(to, "%*s%s%s", (int)(line->depth % 32) * INDENT, "",
            view->kind == VIEW_TABLE ? "" : mark, words_name(view_name(view, line)));
    if (view->kind == VIEW_TABLE)
        by_code_print_place(view->code, line->id,
                            &by_code_numbers[view_is_part(view) ? 0 : view->number], to);
    fclose(to);
}

/* A line as text: on a narrow screen, with one number only. */
static void line_text(const struct view *view, const struct view_line *line, char *text,
                      size_t bytes)
{
    char name[768] = "";
    const bool is_table = view->kind == VIEW_TABLE;
    const bool has_with = !is_table || view->code->groups.by != CODE_BY_STACK;
    const double part = is_table ? line->own : line->with;
    line_add_name(view, line, name, sizeof name);
    if (COLS < COLUMNS_WIDE) {
        const bool shows_own = is_table && (!view->sorts_total || !has_with);
        snprintf(text, bytes, "%11s %s", screen_value(view, shows_own ? line->own : line->with),
                 name);
        return;
    }
    int used = snprintf(
        text, bytes, "%12s %8s", view->kind != VIEW_CALLERS ? screen_value(view, line->own) : "",
        view->all > 0 && part >= 0 ? words_number(UNIT_SHARE, part / view->all) : "");
    snprintf(text + used, bytes - (size_t)used, " %12s  %s",
             has_with ? screen_value(view, line->with) : "", name);
}

static void draw_lines(const struct screen *screen)
{
    const struct view *view = &screen->view;
    for (int i = 0; i < lines_shown(); i++) {
        const size_t at = screen->top + (size_t)i;
        char text[1024] = "";
        if (at < view->count) line_text(view, &view->lines[at], text, sizeof text);
        put_line(HEAD_LINES + i, at == screen->cursor && at < view->count ? A_REVERSE : A_NORMAL,
                 text);
    }
}

static void draw_help(void)
{
    for (int i = 0; i < lines_shown(); i++)
        put_line(HEAD_LINES + i, A_NORMAL,
                 i < (int)(sizeof keys_help / sizeof *keys_help) ? keys_help[i] : "");
}

/* The row of a line; CODE_GROUP_NONE: there is none, as rows are no functions. */
static uint32_t line_row(const struct view *view, const struct view_line *line)
{
    if (view->kind == VIEW_TABLE) return line->id;
    if (view->code->groups.by != CODE_BY_FUNCTION) return CODE_GROUP_NONE;
    const char *name = view_name(view, line);
    return by_code_find(view->code, name, strlen(name));
}

static void draw_lives(const struct screen *screen)
{
    const struct view *view = &screen->view;
    char text[8192] = "", *rest = text;
    FILE *to = fmemopen(text, sizeof text, "w");
    if (to == NULL) return;
    by_code_print_lives_of(view->code, line_row(view, &view->lines[screen->cursor]), to);
    fclose(to);
    for (int i = 0; i < lines_shown(); i++) {
        const char *line = strsep(&rest, "\n");
        put_line(HEAD_LINES + i, i == 0 ? A_BOLD : A_NORMAL, line != NULL ? line : "");
    }
}

static void interactive_draw(const struct screen *screen)
{
    char foot[160];
    draw_head(screen);
    switch (screen->overlay) {
    case OVERLAY_HELP: draw_help(); break;
    case OVERLAY_LIVES: draw_lives(screen); break;
    default: draw_lines(screen); break;
    }
    if (screen->said != NULL)
        snprintf(foot, sizeof foot, "%s", screen->said);
    else
        snprintf(foot, sizeof foot,
                 "%zu of %zu  Tab view  m number  s sort  / filter  t time  ? keys  q quit",
                 screen->view.count > 0 ? screen->cursor + 1 : 0, screen->view.count);
    put_line(LINES - 1, A_BOLD, foot);
    refresh();
}

/* ---- input of a line ---- */

/* Asks for a text in the last line. False: the user gave up. */
static bool ask_for_text(const char *what, char *text, size_t bytes)
{
    size_t used = strlen(text);
    for (;;) {
        char line[INPUT_BYTES + 80];
        snprintf(line, sizeof line, "%s: %s_", what, text);
        put_line(LINES - 1, A_BOLD, line);
        refresh();
        const int key = getch();
        if (key == KEY_ESCAPE || key == ERR) return false;
        if (key == KEY_NEW_LINE || key == KEY_RETURN || key == KEY_ENTER) return true;
        if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && used > 0) text[--used] = '\0';
        if (key >= ' ' && key < 127 && used + 1 < bytes) {
            text[used++] = (char)key;
            text[used] = '\0';
        }
    }
}

/* Takes "FROM TO"; one that is missing is the beginning or the end. False: it is none. */
static bool take_times(struct view *view, char *text)
{
    char *rest, *from_word = strtok_r(text, " -", &rest), *to_word = strtok_r(NULL, " -", &rest);
    uint64_t from = 0, to = UINT64_MAX;
    const struct stack_times *times = &view->code->tally.times;
    if (times->end_ns[times->buckets - 1] == 0) return false;
    if (from_word != NULL && !time_word_parse(from_word, &from)) return false;
    if (to_word != NULL && !time_word_parse(to_word, &to)) return false;
    if (to <= from) return false;
    view_choose_time(view, from, to);
    return true;
}

/* ---- keys ---- */

static void keep_cursor(struct screen *screen)
{
    const size_t count = screen->view.count, shown = (size_t)lines_shown();
    if (screen->cursor >= count) screen->cursor = count > 0 ? count - 1 : 0;
    if (screen->top > screen->cursor) screen->top = screen->cursor;
    if (screen->cursor >= screen->top + shown) screen->top = screen->cursor - shown + 1;
}

static bool show_again(struct screen *screen)
{
    screen->cursor = screen->top = 0;
    return view_show(&screen->view);
}

static bool next_number(struct screen *screen, unsigned step)
{
    struct view *view = &screen->view;
    const unsigned numbers = view_numbers(view);
    for (unsigned i = 0; i < numbers; i++) {
        view->number = (view->number + step) % numbers;
        if (view_has_number(view, view->number)) break;
    }
    return show_again(screen);
}

static bool go_to_kind(struct screen *screen, unsigned kind)
{
    screen->view.kind = (enum view_kind)(kind % VIEW_KINDS);
    return show_again(screen);
}

/* Shows the callers of the function in the line. */
static bool go_to_callers(struct screen *screen)
{
    struct view *view = &screen->view;
    char name[512];
    if (view->code->groups.by != CODE_BY_FUNCTION) return true;
    snprintf(name, sizeof name, "%s", view_name(view, &view->lines[screen->cursor]));
    if (!go_to_kind(screen, VIEW_CALLERS)) return false;
    for (size_t i = 0; i < view->count; i++)
        if (strcmp(view_name(view, &view->lines[i]), name) == 0) {
            screen->cursor = i;
            return view_toggle(view, i);
        }
    return true;
}

static bool open_or_close(struct screen *screen, bool closes)
{
    struct view *view = &screen->view;
    if (view->count == 0) return true;
    if (view->kind == VIEW_TABLE) return closes || go_to_callers(screen);
    const unsigned depth = view->lines[screen->cursor].depth;
    if (closes && !view->lines[screen->cursor].is_open && depth > 0) {
        while (view->lines[screen->cursor].depth >= depth)
            screen->cursor--;
        return true;
    }
    return (closes && !view->lines[screen->cursor].is_open) || view_toggle(view, screen->cursor);
}

static bool ask_for_time(struct screen *screen)
{
    struct view *view = &screen->view;
    char text[INPUT_BYTES] = "";
    const bool was_part = view_is_part(view);
    if (!ask_for_text("from and to, as 1.5s 3s; nothing: all", text, sizeof text)) return true;
    if (text[0] == '\0') {
        view->from = 0;
        view->until = view->code->tally.times.buckets;
    } else if (!take_times(view, text)) {
        screen->said = "that is no stretch of time of this trace";
        return true;
    }
    if (was_part != view_is_part(view)) view->number = 0;
    return show_again(screen);
}

/* Goes to the stretch of time beside the present one, of the same length. */
static bool move_time(struct screen *screen, bool later)
{
    struct view *view = &screen->view;
    const unsigned length = view->until - view->from, all = view->code->tally.times.buckets;
    if (!view_is_part(view)) return true;
    const unsigned room = later ? all - view->until : view->from;
    const unsigned step = length < room ? length : room;
    view->from = later ? view->from + step : view->from - step;
    view->until = later ? view->until + step : view->until - step;
    return show_again(screen);
}

static bool ask_for_filter(struct screen *screen)
{
    char text[sizeof screen->view.filter];
    memcpy(text, screen->view.filter, sizeof text);
    if (!ask_for_text("names with", text, sizeof text)) return true;
    memcpy(screen->view.filter, text, sizeof text);
    return show_again(screen);
}

static void move_cursor(struct screen *screen, int key)
{
    const size_t page = (size_t)lines_shown(), count = screen->view.count;
    size_t *at = &screen->cursor;
    switch (key) {
    case KEY_UP:
    case 'k': *at -= *at > 0; break;
    case KEY_DOWN:
    case 'j': *at += 1; break;
    case KEY_PPAGE: *at -= *at < page ? *at : page; break;
    case KEY_NPAGE:
    case ' ': *at += page; break;
    case KEY_HOME: *at = 0; break;
    case KEY_END: *at = count; break;
    default: break;
    }
}

/* False: no memory. */
static bool take_key(struct screen *screen, int key)
{
    struct view *view = &screen->view;
    switch (key) {
    case '\t': return go_to_kind(screen, view->kind + 1);
    case '1':
    case '2':
    case '3': return go_to_kind(screen, (unsigned)(key - '1'));
    case 'm': return next_number(screen, 1);
    case 'M': return next_number(screen, view_numbers(view) - 1);
    case 's': view->sorts_total = !view->sorts_total; return show_again(screen);
    case KEY_CONTROL_L: clearok(curscr, TRUE); return true;
    case '/': return ask_for_filter(screen);
    case 't': return ask_for_time(screen);
    case '[': return move_time(screen, false);
    case ']': return move_time(screen, true);
    case KEY_NEW_LINE:
    case KEY_RETURN:
    case KEY_ENTER:
    case KEY_RIGHT:
    case '+': return open_or_close(screen, false);
    case KEY_LEFT:
    case '-': return open_or_close(screen, true);
    default: move_cursor(screen, key); return true;
    }
}

/* A key that opens what lies over the lines closes it, too. */
static void change_overlay(struct screen *screen, int key)
{
    const struct view *view = &screen->view;
    enum overlay wanted = OVERLAY_NONE;
    if (key == KEY_CONTROL_L || key == KEY_RESIZE) return;
    if (key == '?') wanted = OVERLAY_HELP;
    if (key == 'l' && view->count > 0) {
        wanted = OVERLAY_LIVES;
        if (line_row(view, &view->lines[screen->cursor]) == CODE_GROUP_NONE) {
            wanted = OVERLAY_NONE;
            screen->said = "that is no row of the table";
        }
    }
    screen->overlay = screen->overlay == wanted ? OVERLAY_NONE : wanted;
}

/* False: no memory. */
static bool screen_run(struct screen *screen)
{
    bool good = true;
    for (int key = 0; good && key != 'q' && key != ERR;) {
        keep_cursor(screen);
        interactive_draw(screen);
        key = getch();
        screen->said = NULL;
        change_overlay(screen, key);
        good = take_key(screen, key);
    }
    return good;
}

const char *interactive_run(struct by_code *code, const char *name)
{
    struct screen screen = {.view.code = code, .name = name};
    setlocale(LC_CTYPE, "");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return "-i needs a terminal";
    if (!view_open(&screen.view)) return "no memory";
    uint32_t leak;
    screen.view.number = by_code_leaks(code, &leak, 1) > 0 ? BY_CODE_END : 0;
    if (!view_has_number(&screen.view, screen.view.number)) screen.view.number = 0;
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    bool good = terminal != NULL;
    if (good) {
        cbreak();
        noecho();
        keypad(stdscr, TRUE);
        curs_set(0);
        set_escdelay(50);
        good = view_show(&screen.view) && screen_run(&screen);
        endwin();
        delscreen(terminal);
    }
    view_close(&screen.view);
    if (terminal == NULL) return "$TERM names no terminal that is known";
    return good ? NULL : "no memory";
}
