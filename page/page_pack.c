#include "page/page_pack.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACK_LEAST = 64 };

static bool is_scalar(const json_t *value)
{
    return !json_is_array(value) && !json_is_object(value);
}

/* ---- texts ---- */

static bool are_texts(const json_t *list)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one)) return false;
    }
    return true;
}

/* NULL: each text is there about once, or no memory. */
static json_t *pack_texts(const json_t *list)
{
    json_t *numbers = json_object(), *texts = json_array(), *at = json_array();
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        const char *text = json_string_value(one);
        if (json_object_get(numbers, text) == NULL) {
            json_object_set_new(numbers, text, json_integer((json_int_t)json_array_size(texts)));
            json_array_append(texts, one);
        }
        json_array_append(at, json_object_get(numbers, text));
    }
    json_decref(numbers);
    if (json_array_size(texts) <= json_array_size(list) / 2 &&
        json_array_size(at) == json_array_size(list))
        return json_pack("{s:s, s:o, s:o}", "packed", "texts", "texts", texts, "at", at);
    json_decref(texts);
    json_decref(at);
    return NULL;
}

/* ---- one value nearly everywhere ---- */

/* If any value is in more than half of the list, it is this one (Boyer and Moore). */
static const json_t *likeliest(const json_t *list)
{
    const json_t *value = NULL;
    size_t i, votes = 0;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        if (votes == 0) value = one;
        votes += votes == 0 || json_equal(value, one) ? 1 : (size_t)-1;
    }
    return value;
}

/* NULL: no value is in two thirds of the list, or no memory. */
static json_t *pack_mostly(const json_t *list)
{
    const json_t *value = likeliest(list);
    json_t *at = json_array(), *is = json_array();
    size_t i, others = 0;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        if (json_equal(value, one)) continue;
        others++;
        json_array_append_new(at, json_integer((json_int_t)i));
        json_array_append(is, one);
    }
    if (others <= json_array_size(list) / 3 && json_array_size(at) == others &&
        json_array_size(is) == others)
        return json_pack("{s:s, s:I, s:O, s:o, s:o}", "packed", "mostly", "length",
                         (json_int_t)json_array_size(list), "value", value, "at", at, "is", is);
    json_decref(at);
    json_decref(is);
    return NULL;
}

/* ---- integers that never fall ---- */

static bool are_rising(const json_t *list)
{
    json_int_t last = 0;
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        if (!json_is_integer(one) || json_integer_value(one) < last) return false;
        last = json_integer_value(one);
    }
    return true;
}

/* NULL: no memory. */
static json_t *pack_steps(const json_t *list)
{
    json_t *steps = json_array();
    json_int_t last = 0;
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        json_array_append_new(steps, json_integer(json_integer_value(one) - last));
        last = json_integer_value(one);
    }
    if (json_array_size(steps) == json_array_size(list))
        return json_pack("{s:s, s:o}", "packed", "steps", "steps", steps);
    json_decref(steps);
    return NULL;
}

/* ---- all ---- */

/* A new value, or NULL: it stays as it is. */
static json_t *pack_list(const json_t *list)
{
    size_t i;
    json_t *one;
    if (json_array_size(list) < PACK_LEAST) return NULL;
    json_array_foreach(list, i, one)
    {
        if (!is_scalar(one)) return NULL;
    }
    json_t *packed = pack_mostly(list);
    if (packed == NULL && are_texts(list)) packed = pack_texts(list);
    if (packed == NULL && are_rising(list)) packed = pack_steps(list);
    return packed;
}

/* The values of an object or a list, each packed. NULL: no memory. */
static json_t *pack_each(const json_t *of)
{
    json_t *packed = json_is_object(of) ? json_object() : json_array();
    const char *key;
    size_t i;
    json_t *one;
    int failed = 0;
    if (json_is_object(of)) {
        json_object_foreach((json_t *)of, key, one)
        {
            failed |= json_object_set_new(packed, key, page_pack(one));
        }
    } else {
        json_array_foreach(of, i, one)
        {
            failed |= json_array_append_new(packed, page_pack(one));
        }
    }
    if (failed == 0) return packed;
    json_decref(packed);
    return NULL;
}

json_t *page_pack(const json_t *value)
{
    if (is_scalar(value)) return json_incref((json_t *)value);
    json_t *packed = json_is_array(value) ? pack_list(value) : NULL;
    if (packed == NULL) return pack_each(value);
    if (json_object_size(packed) == 2) return packed; /* steps */
    json_t *all = pack_each(packed);
    json_decref(packed);
    return all;
}
