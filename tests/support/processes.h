/* processes.h -- tests with several processes: children that execute commands.
 *
 * A child is a plain fork, so no function of Tarn may have been used in this process
 * before. It runs one function with its end of a connection, a socket pair; the test has
 * the other end. Children may use the checks of child.h.
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

/* Close its connection, and wait until it ends; the test fails unless it returns 0. */
void process_end(struct process *process);

/* Kill it, wait for its end, and close its connection. */
void process_kill(struct process *process);

/* Close the connection to a child that the test has waited for. */
void process_reaped(struct process *process);

/* Send and receive whole messages; false: the connection has ended. */
bool send_message(int line, const void *data, size_t bytes);
bool receive_message(int line, void *data, size_t bytes);

/* The same, but an ended connection fails the test; in a child it ends the child. */
void must_send(int line, const void *data, size_t bytes);
void must_receive(int line, void *data, size_t bytes);

/* The number of descriptors that this process has open. */
int open_files(void);

#endif
