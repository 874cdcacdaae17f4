/* processes.h -- tests with several processes: children that are told what to do.
 *
 * A child is a plain fork, so nothing of Tarn may have been used in this process before.
 * It runs one function with its end of a line, a socket pair; the test has the other end.
 * In children the checks of child.h are for use.
 */
#ifndef TARN_TEST_PROCESSES_H
#define TARN_TEST_PROCESSES_H

#include <stddef.h>
#include <stdbool.h>
#include <sys/types.h>

struct process {
    pid_t pid;
    int line; /* to the child */
};

/* Start a child that runs `function` and ends with 0 when it returns. */
struct process process_start(void (*function)(int line));

/* Close its line, and wait until it ends by itself; the test fails if it does otherwise. */
void process_end(struct process *process);

/* Kill it, wait until it is gone, and close its line. */
void process_kill(struct process *process);

/* Send and receive whole messages; a line that has ended is false. */
bool send_message(int line, const void *data, size_t bytes);
bool receive_message(int line, void *data, size_t bytes);

/* The same where an end is a failure of the test; in a child it ends the child. */
void must_send(int line, const void *data, size_t bytes);
void must_receive(int line, void *data, size_t bytes);

/* How many descriptors this process has open. */
int open_files(void);

#endif
