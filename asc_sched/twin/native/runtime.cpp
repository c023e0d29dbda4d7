// A runtime library with CANN's interface whose device is asc_sched's simulator, inside the calling Python process.
//
// Memory, streams and binaries are kept here, with every argument checked; a launch is handed to
// asc_sched.twin.device, which decodes the argument block, simulates the kernel and returns its time.
//
// Compiled as libruntime_camodel.so (ASC_TWIN_MODEL) and, for builds without a hardware side, as libruntime.so.
//   ASC_TWIN_REFUSE  every way to a device fails, with a message (the NPU backend where there is no NPU)
//   ASC_TWIN_STRICT  launches run when their stream is synchronised, as on hardware, never before; the device's name,
//                    number and faults come from the environment (for tests of launchers)

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "experiment/runtime/runtime/rt.h"

namespace {

// AscendCL's error codes for the same faults.
constexpr rtError_t kParamInvalid = 107000;
constexpr rtError_t kInvalidDevice = 107001;
constexpr rtError_t kNoContext = 107002;
constexpr rtError_t kInvalidStream = 107003;
constexpr rtError_t kInvalidKernel = 107008;
constexpr rtError_t kOutOfMemory = 207001;
constexpr rtError_t kNoDevice = 507033;
constexpr rtError_t kCoreFault = 507015;

constexpr uint64_t kModelCtrlAddr = 255086295400448ULL;  // what pyasc passes on its Model backend
constexpr uint32_t kMaxBlocks = 65535;
constexpr size_t kAlign = 64;
constexpr uint64_t kSlack = 512;
constexpr unsigned char kUndefined = 0xFF;
const char kBinaryMagic[] = "asc_sched twin kernel 1\n";

struct Function {
    void *binary;
    std::string name;
};

struct Launch {
    const void *stub;
    std::string name;
    std::vector<char> binary;
    std::vector<uint64_t> args;
    uint32_t block_num;
    rtStream_t stream;
};

struct State {
    std::mutex mutex;
    std::mutex draining;  // held while launches run: whoever waits for a stream waits for those that another thread runs
    int32_t device = -1;
    std::map<uintptr_t, uint64_t> allocs;   // start to bytes
    std::map<uintptr_t, uint64_t> extents;  // where the host wrote, and how many bytes
    std::set<rtStream_t> streams;
    std::map<void *, std::vector<char>> binaries;
    std::map<const void *, Function> functions;
    std::vector<Launch> pending;
    uint64_t ticks = 0;
};

// As in CANN, a device is set per thread; the twin itself isn't that strict.
#ifdef ASC_TWIN_STRICT
thread_local bool t_entered = false;
#define IN_CONTEXT(s) ((s).device >= 0 && t_entered)
#define ENTER() t_entered = true
#else
#define IN_CONTEXT(s) ((s).device >= 0)
#define ENTER() \
    do {        \
    } while (0)
#endif

State &state()
{
    static State *it = new State();  // never destroyed: pyasc resets the device while the process ends
    return *it;
}

uint64_t g_ctrl_block[64];

uint64_t ctrl_addr()
{
#ifdef ASC_TWIN_MODEL
    return kModelCtrlAddr;
#else
    return reinterpret_cast<uint64_t>(g_ctrl_block);
#endif
}

// -- the log: one JSON object per call, in the file that ASC_SCHED_TWIN_LOG names -------------------------------------
void log_line(const std::string &text)
{
    const char *path = getenv("ASC_SCHED_TWIN_LOG");
    if (path == nullptr || *path == '\0') {
        return;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return;
    }
    std::string line = text + "\n";
    ssize_t written = write(fd, line.data(), line.size());
    (void)written;
    close(fd);
}

// Quotes for JSON. Names come from binaries and environment variables.
std::string quoted(const std::string &text)
{
    std::string out = "\"";
    for (unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 0x20) {
            char escape[8];
            snprintf(escape, sizeof(escape), "\\u%04x", c);
            out += escape;
        } else {
            out += static_cast<char>(c);
        }
    }
    return out + "\"";
}

bool logging()
{
    const char *path = getenv("ASC_SCHED_TWIN_LOG");
    return path != nullptr && *path != '\0';
}

rtError_t logged(const char *call, rtError_t code, const std::string &details = "")
{
    if (!logging()) {
        return code;
    }
    std::ostringstream line;
    line << "{\"call\": \"" << call << "\", \"returned\": " << code << (details.empty() ? "" : ", ") << details << "}";
    log_line(line.str());
    return code;
}

std::string field(const char *name, uint64_t value)
{
    return std::string("\"") + name + "\": " + std::to_string(value);
}

rtError_t refused(const char *call, rtError_t code, const std::string &why)
{
    static std::string last;  // a message that repeats itself (pyasc tries again while it ends) is told once
    if (why != last) {
        fprintf(stderr, "asc_sched twin: %s: %s\n", call, why.c_str());
        fflush(stderr);
        last = why;
    }
    return logged(call, code, "\"reason\": " + quoted(why));
}

// -- faults and facts from the environment ----------------------------------------------------------------------------
#ifdef ASC_TWIN_STRICT
// ASC_SCHED_TWIN_FAIL: "rtSetDevice=507033,rtMalloc=207001".
rtError_t injected(const char *call)
{
    const char *text = getenv("ASC_SCHED_TWIN_FAIL");
    std::string all = text == nullptr ? "" : text;
    std::string key = std::string(call) + "=";
    size_t at = all.find(key);
    return at == std::string::npos ? 0 : static_cast<rtError_t>(atoi(all.c_str() + at + key.size()));
}
#define FAIL_IF_TOLD(call)                                         \
    do {                                                           \
        if (rtError_t told = injected(call)) {                     \
            return logged(call, told, "\"reason\": \"injected\""); \
        }                                                          \
    } while (0)
#else
#define FAIL_IF_TOLD(call) \
    do {                   \
    } while (0)
#endif

#ifdef ASC_TWIN_REFUSE
#define REFUSE_NPU(call)                                                                                          \
    return refused(call, kNoDevice,                                                                               \
                   "there is no NPU behind asc_sched's twin, it serves pyasc's Model backend only; run the script " \
                   "with -r Model (config.Backend.Model), or in a shell without the twin's exports")
#else
#define REFUSE_NPU(call) \
    do {                 \
    } while (0)
#endif

std::string fact(const char *name, const char *otherwise)
{
#ifdef ASC_TWIN_STRICT
    const char *value = getenv(name);
    return value == nullptr ? otherwise : value;
#else
    (void)name;
    return otherwise;
#endif
}

// -- Python, found in the process that loaded this library ------------------------------------------------------------
struct Python {
    int (*ensure)() = nullptr;
    void (*release)(int) = nullptr;
    void *(*import)(const char *) = nullptr;
    void *(*call)(void *, const char *, const char *, ...) = nullptr;
    long long (*as_int)(void *) = nullptr;
    void (*decref)(void *) = nullptr;
    void *(*occurred)() = nullptr;
    void (*print)() = nullptr;

    bool load()
    {
        return find(ensure, "PyGILState_Ensure") && find(release, "PyGILState_Release") &&
               find(import, "PyImport_ImportModule") && find(call, "PyObject_CallMethod") &&
               find(as_int, "PyLong_AsLongLong") && find(decref, "Py_DecRef") && find(occurred, "PyErr_Occurred") &&
               find(print, "PyErr_Print");
    }

private:
    template <typename F>
    bool find(F &function, const char *name)
    {
        function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
        return function != nullptr;
    }
};

// Calls asc_sched.twin.device.<method>(text); negative where it failed, which Python has then explained on stderr.
long long ask_device(const char *method, const std::string &text)
{
    Python python;
    if (!python.load()) {
        fprintf(stderr, "asc_sched twin: this runtime simulates kernels in Python and was loaded outside of Python\n");
        return -1;
    }
    int gil = python.ensure();
    long long answer = -1;
    void *module = python.import("asc_sched.twin.device");
    if (module == nullptr) {
        python.print();
        fprintf(stderr,
                "asc_sched twin: the kernel is simulated by asc_sched, which this Python can't import; install it in "
                "the environment that runs the script\n");
    } else {
        void *result = python.call(module, method, "s", text.c_str());
        if (result != nullptr) {
            answer = python.as_int(result);
            python.decref(result);
        }
        if (python.occurred() != nullptr) {
            python.print();
            answer = -1;
        }
        python.decref(module);
    }
    python.release(gil);
    return answer;
}

// -- memory -----------------------------------------------------------------------------------------------------------
// Bytes from an address to the end of what the host put there, or of its allocation; 0 if it is no device memory.
// pyasc asks for kSlack bytes more than it needs and takes the first address that is a multiple of kSlack.
uint64_t bytes_at(const State &s, uint64_t address)
{
    auto exact = s.extents.find(address);
    if (exact != s.extents.end()) {
        return exact->second;
    }
    auto after = s.allocs.upper_bound(address);
    if (after == s.allocs.begin()) {
        return 0;
    }
    --after;
    uint64_t end = after->first + after->second;
    if (address >= end) {
        return 0;
    }
    bool first = address == (after->first + kSlack - 1) / kSlack * kSlack && after->second > kSlack;
    return first ? after->second - kSlack : end - address;
}

bool within(const State &s, const void *pointer, uint64_t nbytes)
{
    auto address = reinterpret_cast<uintptr_t>(pointer);
    auto after = s.allocs.upper_bound(address);
    if (after == s.allocs.begin()) {
        return false;
    }
    --after;
    return address + nbytes <= after->first + after->second;
}

// -- launches ---------------------------------------------------------------------------------------------------------
rtError_t run(State &s, const Launch &launch)
{
    std::ostringstream text;
    text << "{\"name\": " << quoted(launch.name) << ", \"block_num\": " << launch.block_num << ", \"binary\": ["
         << reinterpret_cast<uintptr_t>(launch.binary.data()) << ", " << launch.binary.size() << "], \"args\": ["
         << reinterpret_cast<uintptr_t>(launch.args.data()) << ", " << launch.args.size() * 8
         << "], \"ctrl_addr\": " << ctrl_addr() << ", \"extents\": {";
    const char *comma = "";
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        std::set<uint64_t> seen;
        for (uint64_t word : launch.args) {
            uint64_t nbytes = bytes_at(s, word);
            if (nbytes > 0 && seen.insert(word).second) {
                text << comma << "\"" << word << "\": " << nbytes;
                comma = ", ";
            }
        }
    }
    text << "}}";
    long long ticks = ask_device("launch", text.str());
    if (ticks < 0) {
        return logged("run", kCoreFault);
    }
    std::lock_guard<std::mutex> lock(s.mutex);
    s.ticks += static_cast<uint64_t>(ticks);
    return logged("run", RT_ERROR_NONE, "\"name\": " + quoted(launch.name) + ", " + field("ticks", ticks));
}

// Runs what waits on a stream (on all of them for nullptr), in order, after what other threads are running.
rtError_t drain(State &s, rtStream_t stream)
{
    std::lock_guard<std::mutex> turn(s.draining);
    std::vector<Launch> due;
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        std::vector<Launch> left;
        for (Launch &launch : s.pending) {
            (stream == nullptr || launch.stream == stream ? due : left).push_back(std::move(launch));
        }
        s.pending.swap(left);
    }
    rtError_t first = RT_ERROR_NONE;
    for (const Launch &launch : due) {
        rtError_t code = run(s, launch);
        first = first == RT_ERROR_NONE ? code : first;
    }
    return first;
}

}  // namespace

// -- the interface ----------------------------------------------------------------------------------------------------
extern "C" {

rtError_t rtGetSocVersion(char_t *version, uint32_t capacity)
{
    REFUSE_NPU("rtGetSocVersion");
    FAIL_IF_TOLD("rtGetSocVersion");
    std::string name = fact("ASC_SCHED_TWIN_SOC", "Ascend910B1");
    if (version == nullptr || name.size() + 1 > capacity) {
        return refused("rtGetSocVersion", kParamInvalid, "no room for the name");
    }
    memcpy(version, name.c_str(), name.size() + 1);
    return logged("rtGetSocVersion", RT_ERROR_NONE);
}

rtError_t rtGetDeviceCount(int32_t *count)
{
    REFUSE_NPU("rtGetDeviceCount");
    FAIL_IF_TOLD("rtGetDeviceCount");
    *count = atoi(fact("ASC_SCHED_TWIN_DEVICES", "1").c_str());
    return logged("rtGetDeviceCount", RT_ERROR_NONE);
}

rtError_t rtGetDeviceInfo(uint32_t, int32_t module, int32_t info, int64_t *value)
{
    constexpr int32_t kAiCore = 4, kVectorCore = 7, kCoreNum = 3;
    if (info != kCoreNum || (module != kAiCore && module != kVectorCore)) {
        return refused("rtGetDeviceInfo", kParamInvalid, "only core numbers are known");
    }
    long long cores = ask_device("core_num", module == kAiCore ? "cube" : "vector");
    if (cores < 0) {
        return logged("rtGetDeviceInfo", kParamInvalid);
    }
    *value = cores;
    return logged("rtGetDeviceInfo", RT_ERROR_NONE);
}

rtError_t rtSetDevice(int32_t device)
{
    REFUSE_NPU("rtSetDevice");
    FAIL_IF_TOLD("rtSetDevice");
    int32_t count = atoi(fact("ASC_SCHED_TWIN_DEVICES", "1").c_str());
    if (device < 0 || device >= count) {
        return refused("rtSetDevice", kInvalidDevice,
                       "device " + std::to_string(device) + " of " + std::to_string(count));
    }
    {
        std::lock_guard<std::mutex> lock(state().mutex);
        state().device = device;
    }
    ENTER();
    ask_device("started", "");
    return logged("rtSetDevice", RT_ERROR_NONE, field("device", device));
}

rtError_t rtDeviceReset(int32_t device)
{
    State &s = state();
    rtError_t code = drain(s, nullptr);
    std::lock_guard<std::mutex> lock(s.mutex);
    return logged("rtDeviceReset", code,
                  field("device", device) + ", " + field("allocations", s.allocs.size()) + ", " +
                      field("binaries", s.binaries.size()));
}

rtError_t rtStreamCreate(rtStream_t *stream, int32_t)
{
    FAIL_IF_TOLD("rtStreamCreate");
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (!IN_CONTEXT(s)) {
        return refused("rtStreamCreate", kNoContext, "no device is set in this thread");
    }
    *stream = new char;
    s.streams.insert(*stream);
    return logged("rtStreamCreate", RT_ERROR_NONE, field("stream", reinterpret_cast<uint64_t>(*stream)));
}

rtError_t rtStreamDestroy(rtStream_t stream)
{
    State &s = state();
    rtError_t code = drain(s, stream);
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.streams.erase(stream) == 0) {
        return refused("rtStreamDestroy", kInvalidStream, "not a stream");
    }
    delete static_cast<char *>(stream);
    return logged("rtStreamDestroy", code);
}

rtError_t rtDevBinaryRegister(const rtDevBinary_t *binary, void **handle)
{
    FAIL_IF_TOLD("rtDevBinaryRegister");
    constexpr uint32_t kVector = 0x41415246, kMix = 0x43554245, kCube = 0x41494343;
    if (binary == nullptr || binary->data == nullptr || handle == nullptr) {
        return refused("rtDevBinaryRegister", kParamInvalid, "null pointer");
    }
    if (binary->magic != kVector && binary->magic != kMix && binary->magic != kCube) {
        return refused("rtDevBinaryRegister", kParamInvalid, "unknown magic number");
    }
    if (binary->magic != kVector) {
        return refused("rtDevBinaryRegister", kParamInvalid, "only kernels of vector cores are simulated");
    }
    size_t magic = sizeof(kBinaryMagic) - 1;
    if (binary->length < magic || memcmp(binary->data, kBinaryMagic, magic) != 0) {
        return refused("rtDevBinaryRegister", kParamInvalid,
                       "the binary isn't one of the twin's compiler; pyasc's cache (PYASC_CACHE_DIR) must not be "
                       "shared with a real CANN");
    }
    auto data = static_cast<const char *>(binary->data);
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    *handle = new char;
    s.binaries[*handle] = std::vector<char>(data, data + binary->length);
    return logged("rtDevBinaryRegister", RT_ERROR_NONE, field("bytes", binary->length));
}

rtError_t rtDevBinaryUnRegister(void *handle)
{
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.binaries.erase(handle) == 0) {
        return refused("rtDevBinaryUnRegister", kParamInvalid, "not a registered binary");
    }
    for (auto it = s.functions.begin(); it != s.functions.end();) {
        it = it->second.binary == handle ? s.functions.erase(it) : std::next(it);
    }
    delete static_cast<char *>(handle);
    return logged("rtDevBinaryUnRegister", RT_ERROR_NONE);
}

rtError_t rtFunctionRegister(void *handle, const void *stub, const char_t *name, const void *info, uint32_t mode)
{
    FAIL_IF_TOLD("rtFunctionRegister");
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (s.binaries.count(handle) == 0) {
        return refused("rtFunctionRegister", kParamInvalid, "not a registered binary");
    }
    if (stub == nullptr || name == nullptr || info == nullptr || mode != 0) {
        return refused("rtFunctionRegister", kParamInvalid, "null pointer, or a mode other than 0");
    }
    s.functions[stub] = Function{handle, name};
    return logged("rtFunctionRegister", RT_ERROR_NONE, "\"name\": " + quoted(name));
}

rtError_t rtMalloc(void **pointer, uint64_t nbytes, rtMemType_t, uint16_t)
{
    FAIL_IF_TOLD("rtMalloc");
    State &s = state();
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        if (!IN_CONTEXT(s)) {
            return refused("rtMalloc", kNoContext, "no device is set in this thread");
        }
    }
    if (pointer == nullptr || nbytes == 0 || posix_memalign(pointer, kAlign, nbytes) != 0) {
        return refused("rtMalloc", kOutOfMemory, "can't allocate " + std::to_string(nbytes) + " bytes");
    }
    memset(*pointer, kUndefined, nbytes);
    std::lock_guard<std::mutex> lock(s.mutex);
    s.allocs[reinterpret_cast<uintptr_t>(*pointer)] = nbytes;
    return logged("rtMalloc", RT_ERROR_NONE, field("bytes", nbytes));
}

rtError_t rtFree(void *pointer)
{
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    auto start = reinterpret_cast<uintptr_t>(pointer);
    auto found = s.allocs.find(start);
    if (found == s.allocs.end()) {
        return refused("rtFree", kParamInvalid, "not the start of an allocation");
    }
    s.extents.erase(s.extents.lower_bound(start), s.extents.lower_bound(start + found->second));
    s.allocs.erase(found);
    free(pointer);
    return logged("rtFree", RT_ERROR_NONE);
}

rtError_t rtMemcpy(void *to, uint64_t capacity, const void *from, uint64_t nbytes, rtMemcpyKind_t kind)
{
    FAIL_IF_TOLD("rtMemcpy");
    constexpr rtMemcpyKind_t kToDevice = 1, kToHost = 2, kOnDevice = 3;
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    if (nbytes == 0 || nbytes > capacity) {
        return refused("rtMemcpy", kParamInvalid,
                       std::to_string(nbytes) + " bytes to a place for " + std::to_string(capacity));
    }
    if ((kind == kToDevice || kind == kOnDevice) && !within(s, to, nbytes)) {
        return refused("rtMemcpy", kParamInvalid, "the destination isn't device memory of that size");
    }
    if ((kind == kToHost || kind == kOnDevice) && !within(s, from, nbytes)) {
        return refused("rtMemcpy", kParamInvalid, "the source isn't device memory of that size");
    }
    memcpy(to, from, nbytes);
    if (kind == kToDevice) {
        s.extents[reinterpret_cast<uintptr_t>(to)] = nbytes;
    }
    return logged("rtMemcpy", RT_ERROR_NONE, field("kind", kind) + ", " + field("bytes", nbytes));
}

rtError_t rtKernelLaunch(const void *stub, uint32_t block_num, void *args, uint32_t nbytes, rtSmDesc_t *shared,
                         rtStream_t stream)
{
    FAIL_IF_TOLD("rtKernelLaunch");
    State &s = state();
    Launch launch;
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        if (!IN_CONTEXT(s)) {
            return refused("rtKernelLaunch", kNoContext, "no device is set in this thread");
        }
        auto found = s.functions.find(stub);
        if (found == s.functions.end()) {
            return refused("rtKernelLaunch", kInvalidKernel, "the function isn't registered");
        }
        if (block_num < 1 || block_num > kMaxBlocks) {
            return refused("rtKernelLaunch", kParamInvalid,
                           "block number " + std::to_string(block_num) + " isn't in 1 to 65535");
        }
        if (args == nullptr || reinterpret_cast<uintptr_t>(args) % 8 != 0 || nbytes == 0 || nbytes % 8 != 0) {
            return refused("rtKernelLaunch", kParamInvalid,
                           "the argument block must lie at, and be, a multiple of 8 bytes; it has " +
                               std::to_string(nbytes));
        }
        if (s.streams.count(stream) == 0) {
            return refused("rtKernelLaunch", kInvalidStream, "not a stream");
        }
        if (shared != nullptr) {
            return refused("rtKernelLaunch", kParamInvalid, "a shared memory description isn't supported");
        }
        auto words = static_cast<const uint64_t *>(args);
        launch = Launch{stub, found->second.name, s.binaries[found->second.binary],
                        std::vector<uint64_t>(words, words + nbytes / 8), block_num, stream};
    }
    logged("rtKernelLaunch", RT_ERROR_NONE,
           "\"name\": " + quoted(launch.name) + ", " + field("block_num", block_num) + ", " + field("bytes", nbytes) +
               ", " + field("stream", reinterpret_cast<uint64_t>(stream)));
#ifdef ASC_TWIN_STRICT
    if (fact("ASC_SCHED_TWIN_LAUNCH", "run") == "skip") {
        return RT_ERROR_NONE;
    }
    std::lock_guard<std::mutex> lock(s.mutex);
    s.pending.push_back(std::move(launch));
    return RT_ERROR_NONE;
#else
    return run(s, launch);
#endif
}

rtError_t rtStreamSynchronize(rtStream_t stream)
{
    State &s = state();
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        if (s.streams.count(stream) == 0) {
            return refused("rtStreamSynchronize", kInvalidStream, "not a stream");
        }
    }
    return logged("rtStreamSynchronize", drain(s, stream), field("stream", reinterpret_cast<uint64_t>(stream)));
}

rtError_t rtStreamSynchronizeWithTimeout(rtStream_t stream, int32_t)
{
    return rtStreamSynchronize(stream);
}

rtError_t rtDeviceSynchronize(void)
{
    return logged("rtDeviceSynchronize", drain(state(), nullptr));
}

rtError_t rtGetC2cCtrlAddr(uint64_t *address, uint32_t *length)
{
    FAIL_IF_TOLD("rtGetC2cCtrlAddr");
    *address = ctrl_addr();
    *length = sizeof(g_ctrl_block);
    return logged("rtGetC2cCtrlAddr", RT_ERROR_NONE);
}

rtError_t rtProfSetProSwitch(void *, uint32_t)
{
    return logged("rtProfSetProSwitch", RT_ERROR_NONE);
}

}  // extern "C"

namespace tm_engine {
// What pyasc's current_tick() reads: simulated core cycles since the process began.
__attribute__((visibility("default"))) uint64_t tm_time()
{
    State &s = state();
    std::lock_guard<std::mutex> lock(s.mutex);
    return s.ticks;
}
}  // namespace tm_engine
