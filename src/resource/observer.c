/* observer.c -- the observer of the public calls of a process.
 *
 * The switch is a flag of intercept.h: while no observer is set, an allocation only loads
 * the word that has it.
 */
#include "resource/observer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hook.h"

static struct tarn__hook observer_hook; /* a tarn_observer */

/* This thread is inside a call that the observer sees: nested calls are not reported. */
static _Thread_local bool inside;

bool tarn__observer_call_is_outermost(void)
{
    return !inside;
}

bool tarn__observer_hide_calls(void)
{
    bool before = inside;

    inside = true;
    return before;
}

void tarn__observer_show_calls(bool before)
{
    inside = before;
}

static void remove_observer(void)
{
    tarn__hook_lock();
    tarn__intercept_set_observed(false);
    observer_hook.function = NULL;
    tarn__hook_wait_locked(&observer_hook);
    tarn__hook_unlock();
}

/* Set the observer. Returns false if one is set already. If one is being removed, this
 * waits for its last call. */
static bool set_observer(tarn_observer function, void *data)
{
    tarn__hook_lock();
    if (!observer_hook.function)
        tarn__hook_wait_locked(&observer_hook);
    bool is_free = !observer_hook.function;
    if (is_free) {
        observer_hook.function = (tarn__any_function *)function;
        observer_hook.data = data;
        tarn__intercept_set_observed(true);
    }
    tarn__hook_unlock();
    return is_free;
}

tarn_status tarn_resource_set_observer(tarn_observer observer, void *data)
{
    if (!observer)
        remove_observer();
    else if (!set_observer(observer, data))
        return tarn_error_set(TARN_ALREADY_SET,
                              "observer: another observer is set already");
    return TARN_OK;
}

static void call_observer(const tarn_observer_event *event)
{
    struct tarn__hook_call call;

    if (!tarn__hook_begin(&observer_hook, &call))
        return; /* it was removed meanwhile */
    ((tarn_observer)call.function)(call.data, event);
    tarn__hook_end(&call);
}

void tarn__observer_begin_allocation(tarn_observer_event *event)
{
    inside = true;
    event->start_ns = tarn__clock_now_ns();
}

void tarn__observer_end_allocation(tarn_observer_event *event, tarn_status status)
{
    event->end_ns = tarn__clock_now_ns();
    event->action =
        status == TARN_OK ? TARN_ACTION_ALLOCATE : TARN_ACTION_ALLOCATE_FAILURE;
    event->is_over = true;
    event->status = status;
    struct tarn__kept_error why = tarn__error_keep();
    call_observer(event);
    inside = false;
    tarn__error_restore(&why); /* the observer may have had failures of its own */
}

/* Reported before the free: once the block is returned, another thread may get its
 * address, and that allocation must not be reported first. */
void tarn__observer_begin_free(tarn_observer_event *event)
{
    struct tarn__kept_error last = tarn__error_keep();

    inside = true;
    event->start_ns = event->end_ns = tarn__clock_now_ns();
    call_observer(event);
    tarn__error_restore(&last);
}

void tarn__observer_end_free(tarn_observer_event *event, tarn_status status)
{
    struct tarn__kept_error last = tarn__error_keep();

    event->end_ns = tarn__clock_now_ns();
    event->is_over = true;
    event->status = status;
    call_observer(event);
    inside = false;
    tarn__error_restore(&last);
}
