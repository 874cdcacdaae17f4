/* rmm.cpp -- an extension module: resources of Tarn for RMM, without calls of Python.
 *
 * tarn.mr.to_rmm() compiles this file against the installed RMM. TarnMemoryResource
 * derives from rmm.mr.DeviceMemoryResource, a class that Cython compiled. RMM's code in
 * C++ reads the member `c_ref` of such an object: a reference to a C++ resource. This
 * file declares the same members as RMM's .pxd files, and compares the size of the class.
 *
 * The C++ resource holds a reference to a tarn_resource, and so does each copy that RMM
 * makes of it. So RMM may keep a copy for longer than the Python object exists.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <cuda/devices>
#include <cuda/memory_resource>
#include <cuda/stream>
#include <rmm/detail/export.hpp>
#ifdef __clang__ /* old ones reject an attribute between `namespace` and its name */
#undef RMM_EXPORT
#define RMM_EXPORT
#pragma GCC visibility push(default)
#endif
#include <rmm/cuda_device.hpp>
#include <rmm/error.hpp>
#ifdef __clang__
#pragma GCC visibility pop
#endif
#include <rmm/resource_ref.hpp>

#include <tarn/tarn.hpp> /* after RMM: its exceptions are RMM's */

#include <new>
#include <optional>
#include <stdexcept>

namespace
{

PyObject *rmm_class; /* rmm.mr.DeviceMemoryResource; strong, the module stays loaded */

/* --- calls of Tarn, on any thread --- */

/* Releases the GIL before Tarn blocks, on a thread that holds it: parts of RMM call their
 * upstream with it. */
class gil_hold
{
  public:
    gil_hold() noexcept
        : hook_{{release}, nullptr}, outer_(tarn_set_blocking_hook(&hook_.base))
    {
    }

    gil_hold(gil_hold const &) = delete;
    gil_hold &operator=(gil_hold const &) = delete;

    ~gil_hold()
    {
        tarn_set_blocking_hook(outer_);
        if (hook_.away != nullptr)
            PyEval_RestoreThread(hook_.away);
    }

  private:
    struct hook {
        tarn_blocking_hook base;
        PyThreadState *away; /* NULL: the GIL was not held, or is kept */
    };

    static void release(tarn_blocking_hook *base)
    {
#if PY_VERSION_HEX >= 0x030d0000
        PyThreadState *current = PyThreadState_GetUnchecked();
#else
        PyThreadState *current = _PyThreadState_UncheckedGet();
#endif
        if (current != nullptr && current == PyGILState_GetThisThreadState())
            reinterpret_cast<hook *>(base)->away = PyEval_SaveThread();
    }

    hook hook_;
    tarn_blocking_hook *outer_;
};

/* Passes the message of a failed free to sys.unraisablehook: its caller expects no
 * exception. */
void report() noexcept
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_Format(PyExc_RuntimeError, "%s", tarn_error_last()->message);
    PyErr_WriteUnraisable(rmm_class);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
}

/* --- the resource in C++ --- */

/* The resource of tarn.hpp, for callers that may hold the GIL, and for the exceptions of
 * Cython: it makes a MemoryError of each std::bad_alloc, and its text is what() alone. */
class resource : public tarn::resource
{
  public:
    explicit resource(tarn_resource *native) noexcept
        : tarn::resource(tarn_resource_retain(native))
    {
    }

    void *allocate(tarn::stream_view stream, std::size_t bytes, std::size_t alignment)
    {
        gil_hold hold;
        tarn_device_ptr block = 0;
        tarn_status status =
            tarn_resource_allocate(get(), bytes, alignment, stream.get(), &block);
        if (status == TARN_OUT_OF_MEMORY)
            throw rmm::out_of_memory(tarn_error_last()->message); /* with RMM's words */
        tarn::check(status);
        return reinterpret_cast<void *>(block);
    }

    void deallocate(tarn::stream_view stream, void *block, std::size_t bytes,
                    std::size_t alignment) noexcept
    {
        tarn_status status;
        {
            gil_hold hold;
            status =
                tarn_resource_deallocate(get(), reinterpret_cast<tarn_device_ptr>(block),
                                         bytes, alignment, stream.get());
        }
        if (status != TARN_OK)
            report();
    }

    void *allocate_sync(std::size_t bytes, std::size_t alignment)
    {
        gil_hold hold;
        return tarn::resource::allocate_sync(bytes, alignment);
    }

    void deallocate_sync(void *block, std::size_t bytes, std::size_t alignment) noexcept
    {
        deallocate(tarn::stream_view::none(), block, bytes, alignment);
    }
};

static_assert(cuda::mr::resource_with<resource, cuda::mr::device_accessible>);

/* --- the object in Python --- */

/* RMM's wrapper of a reference, in rmm/librmm/memory_resource.pxd. */
struct reference {
    std::optional<rmm::device_async_resource_ref> ref;
};

/* DeviceMemoryResource in rmm/pylibrmm/memory_resource/_memory_resource.pxd, as Cython
 * lays it out. */
struct rmm_object {
    PyObject_HEAD void *vtable;
    std::optional<reference> c_ref;
};

struct bridge_object {
    rmm_object base;
    resource *held;          /* the target of c_ref; owned */
    PyObject *tarn_resource; /* the Python object, kept alive */
};

/* (tarn_resource, capsule of its C resource) */
int bridge_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    auto *self = reinterpret_cast<bridge_object *>(object);
    PyObject *tarn_object, *capsule;

    if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError,
                        "TarnMemoryResource() takes no keyword arguments");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OO:TarnMemoryResource", &tarn_object, &capsule))
        return -1;
    if (self->held != nullptr) {
        PyErr_SetString(PyExc_ValueError, "a resource can be initialised only once");
        return -1;
    }
    auto *native =
        static_cast<tarn_resource *>(PyCapsule_GetPointer(capsule, "tarn_resource"));
    if (native == nullptr)
        return -1;
    self->held = new (std::nothrow) resource(native);
    if (self->held == nullptr) {
        PyErr_NoMemory();
        return -1;
    }
    self->tarn_resource = Py_NewRef(tarn_object);
    self->base.c_ref = reference{rmm::device_async_resource_ref(*self->held)};
    return 0;
}

/* No tp_clear: an object in the same cycle may still have to free its memory here. */
int bridge_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(reinterpret_cast<bridge_object *>(object)->tarn_resource);
    return 0;
}

void bridge_dealloc(PyObject *object)
{
    auto *self = reinterpret_cast<bridge_object *>(object);
    auto *base = reinterpret_cast<PyTypeObject *>(rmm_class);
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    self->base.c_ref.reset();
    Py_BEGIN_ALLOW_THREADS;
    delete self->held;
    Py_END_ALLOW_THREADS;
    self->held = nullptr;
    Py_CLEAR(self->tarn_resource);
    base->tp_dealloc(object);
    /* The function of a heap type drops the reference of the object to its type. */
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE))
        Py_DECREF(type);
}

PyMemberDef bridge_members[] = {
    {"tarn_resource", T_OBJECT, offsetof(bridge_object, tarn_resource), READONLY,
     "The resource of Tarn."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot bridge_slots[] = {
    {Py_tp_doc, const_cast<char *>("TarnMemoryResource(tarn_resource, capsule)\n--\n\n"
                                   "A resource of Tarn as one of RMM.")},
    {Py_tp_init, reinterpret_cast<void *>(bridge_init)},
    {Py_tp_traverse, reinterpret_cast<void *>(bridge_traverse)},
    {Py_tp_dealloc, reinterpret_cast<void *>(bridge_dealloc)},
    {Py_tp_free, reinterpret_cast<void *>(PyObject_GC_Del)},
    {Py_tp_members, bridge_members},
    {0, nullptr},
};

PyType_Spec bridge_spec = {
    "tarn._rmm_bridge.TarnMemoryResource",
    sizeof(bridge_object),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    bridge_slots,
};

/* --- the other direction: a resource of RMM for Tarn --- */

/* `self` of the operations below. */
struct upstream {
    rmm::device_async_resource_ref ref; /* the C++ resource of `object` */
    PyObject *object;                   /* of RMM; strong */
    int device;
};

/* Makes the device of a resource current, which RMM expects of its callers. Where it is
 * current already, that takes no call of the CUDA runtime. */
class on_device
{
  public:
    explicit on_device(int device)
    {
        int current = -1;
        if (tarn_driver_current_device(&current) != TARN_OK || current != device)
            scope_.emplace(rmm::cuda_device_id{device});
    }

  private:
    std::optional<rmm::cuda_set_device_raii> scope_;
};

/* RMM has the default stream in place of none; Tarn knows that of a resource that supports
 * streams. */
cuda::stream_ref stream_of(tarn_stream stream)
{
    return cuda::stream_ref{static_cast<cudaStream_t>(tarn_stream_handle(stream))};
}

tarn_status upstream_allocate(void *self, size_t bytes, size_t alignment,
                              tarn_stream stream, tarn_device_ptr *out)
{
    auto *from = static_cast<upstream *>(self);

    try {
        on_device scope(from->device);
        void *block = from->ref.allocate(stream_of(stream), bytes, alignment);
        auto address = reinterpret_cast<tarn_device_ptr>(block);
        if (address % alignment != 0) { /* RMM's pools ignore more than 256 */
            from->ref.deallocate(stream_of(stream), block, bytes, alignment);
            return tarn_error_set(TARN_NOT_SUPPORTED,
                                  "rmm: 0x%llx is not aligned to %zu bytes",
                                  static_cast<unsigned long long>(address), alignment);
        }
        *out = address;
        return TARN_OK;
    } catch (rmm::out_of_memory const &error) {
        return tarn_error_set(TARN_OUT_OF_MEMORY, "rmm: %s", error.what());
    } catch (std::bad_alloc const &error) { /* also an alignment that RMM rejects */
        return tarn_error_set(alignment > TARN_ALIGNMENT ? TARN_NOT_SUPPORTED
                                                         : TARN_OUT_OF_MEMORY,
                              "rmm: %s", error.what());
    } catch (std::exception const &error) {
        return tarn_error_set(TARN_PLUGIN_FAILURE, "rmm: %s", error.what());
    } catch (...) {
        return tarn_error_set(TARN_PLUGIN_FAILURE, "rmm: an unknown exception");
    }
}

tarn_status upstream_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                size_t alignment, tarn_stream stream)
{
    auto *from = static_cast<upstream *>(self);

    if (!Py_IsInitialized())
        return TARN_OK; /* the block ends with the process */
    try {
        on_device scope(from->device);
        from->ref.deallocate(stream_of(stream), reinterpret_cast<void *>(block), bytes,
                             alignment);
        return TARN_OK;
    } catch (std::exception const &error) {
        return tarn_error_set(TARN_PLUGIN_FAILURE, "rmm: %s", error.what());
    }
}

void upstream_destroy(void *self)
{
    auto *from = static_cast<upstream *>(self);

    if (Py_IsInitialized()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(from->object);
        PyGILState_Release(gil);
    }
    delete from;
}

bool upstream_supports_streams(const void *)
{
    return true;
}

tarn_resource_ops upstream_table()
{
    tarn_resource_ops ops{};

    ops.size = sizeof ops;
    ops.name = "rmm";
    ops.allocate = upstream_allocate;
    ops.deallocate = upstream_deallocate;
    ops.destroy = upstream_destroy;
    ops.supports_streams = upstream_supports_streams;
    return ops;
}

void end_capsule(PyObject *capsule)
{
    void *native = PyCapsule_GetPointer(capsule, "tarn_resource");
    if (tarn_resource_release(static_cast<tarn_resource *>(native)) != TARN_OK)
        report();
}

/* (object of RMM, device): a capsule with a Tarn resource. */
PyObject *upstream_capsule(PyObject *, PyObject *args)
{
    static tarn_resource_ops const ops = upstream_table();
    PyObject *object;
    int device;

    if (!PyArg_ParseTuple(args, "O!i", rmm_class, &object, &device))
        return nullptr;
    auto &c_ref = reinterpret_cast<rmm_object *>(object)->c_ref;
    if (!c_ref.has_value() || !c_ref->ref.has_value())
        return PyErr_Format(PyExc_ValueError, "%R is not initialised", object);
    auto *self = new (std::nothrow) upstream{*c_ref->ref, object, device};
    if (self == nullptr)
        return PyErr_NoMemory();
    Py_INCREF(object);
    tarn_resource *native = nullptr;
    if (tarn_resource_create(&ops, self, device, &native) != TARN_OK) {
        upstream_destroy(self);
        return PyErr_Format(PyExc_RuntimeError, "%s", tarn_error_last()->message);
    }
    PyObject *capsule = PyCapsule_New(native, "tarn_resource", end_capsule);
    if (capsule == nullptr)
        tarn_resource_release(native);
    return capsule;
}

PyMethodDef module_functions[] = {
    {"upstream_capsule", upstream_capsule, METH_VARARGS,
     "Return a capsule with a Tarn resource over a resource of RMM."},
    {nullptr, nullptr, 0, nullptr},
};

/* --- the module --- */

/* Import RMM's class, and compare it with the declaration above. */
int find_rmm_class()
{
    PyObject *module = PyImport_ImportModule("rmm.mr");
    if (module == nullptr)
        return -1;
    rmm_class = PyObject_GetAttrString(module, "DeviceMemoryResource");
    Py_DECREF(module);
    if (rmm_class == nullptr)
        return -1;
    if (!PyType_Check(rmm_class)) {
        PyErr_SetString(PyExc_ImportError, "rmm.mr.DeviceMemoryResource is not a class");
        return -1;
    }
    Py_ssize_t size = reinterpret_cast<PyTypeObject *>(rmm_class)->tp_basicsize;
    if (size != static_cast<Py_ssize_t>(sizeof(rmm_object))) {
        PyErr_Format(
            PyExc_ImportError,
            "rmm.mr.DeviceMemoryResource has %zd bytes, its .pxd of RMM 26.10 has %zu",
            size, sizeof(rmm_object));
        return -1;
    }
    return 0;
}

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    "tarn_rmm",
    "Resources of Tarn for RMM.",
    -1,
    module_functions,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

} // namespace

PyMODINIT_FUNC PyInit_tarn_rmm(void)
{
    if (find_rmm_class() != 0)
        return nullptr;
    PyObject *module = PyModule_Create(&module_definition);
    PyObject *type = PyType_FromSpecWithBases(&bridge_spec, rmm_class);
    if (module != nullptr && type != nullptr &&
        PyModule_AddObjectRef(module, "TarnMemoryResource", type) == 0) {
        Py_DECREF(type);
        return module;
    }
    Py_XDECREF(type);
    Py_XDECREF(module);
    return nullptr;
}
