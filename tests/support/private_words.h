/* private_words.h -- words that no message for users may contain.
 *
 * docs/glossary.md has the terms to use instead. tests/unit/messages.c compares the
 * messages of failing calls with this list, tests/architecture/test_messages.py all
 * string literals.
 *
 * An entry matches whole words, in either case, unless " of" follows: "out of memory" is
 * no private word.
 */
#ifndef TARN_TEST_PRIVATE_WORDS_H
#define TARN_TEST_PRIVATE_WORDS_H

static const char *const private_words[] = {
    "stand-in",      "lane",
    "lanes",         "magazine",
    "magazines",     "granule",
    "granules",      "parked",
    "asleep",        "sleep",
    "sleeps",        "out here",
    "which is out",  "is out",
    "are out",       "blocks out",
    "still out",     "in words",
    "the words",     "upstream words",
    "nobody",        "nobody's",
    "somebody",      "somebody's",
    "anybody",       "whoever",
    "who",           "gives back",
    "give back",     "given back",
    "brings back",   "put off",
    "puts off",      "lets go",
    "let go",        "had again",
    "to be had",     "in charge",
    "tap",           "streamless",
    "last_step",     "when_asleep",
    "free_waits",    "opened stream",
    "closed stream", "room",
    "barrier",       "barriers",
    "thief",         "donor",
    "weld",          "swallow",
    "for ever",      "garbage",
    "nonsense",      "into NULL",
    "with NULL",     "a place for the result",
    "says",          "told",
};

#endif
