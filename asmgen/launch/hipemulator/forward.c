/* A HIP runtime that forwards each call to Python in its own process: asmgen.launch.hipemulator.runtime.

   Below this text stands one line per call, written by library.py from the table in calls.py. The library is compiled without
   headers and linked without a C library, so that no development packages are needed: the process that opens it has all of them. */

typedef unsigned long u64;
typedef long i64;

extern void *dlsym(void *handle, const char *name);
extern char *getenv(const char *name);
extern i64 write(int file, const void *bytes, u64 count);

typedef i64 (*dispatch_function)(int number, const i64 *arguments);

static dispatch_function volatile dispatch;

/* Called from Python once the emulator is there. */
void asmgen_register(dispatch_function function) { dispatch = function; }

static void say(const char *text) {
    u64 length = 0;
    while (text[length]) length++;
    if (write(2, text, length) < 0) return;
}

/* Loads the emulator into the Python interpreter of this process. 1 where there is none, or it cannot be loaded. */
static int start(void) {
    int (*ensure)(void) = (int (*)(void))dlsym((void *)0, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym((void *)0, "PyGILState_Release");
    int (*run)(const char *) = (int (*)(const char *))dlsym((void *)0, "PyRun_SimpleString");
    int state;
    if (!ensure || !release || !run) {
        say("asmgen hip-emulator: this process is no Python program; only programs that use hip-python can run\n");
        return 1;
    }
    state = ensure();
    if (!dispatch) run("def _asmgen_start():\n"
                       "    import os, sys\n"
                       "    home = os.environ.get('ASMGEN_HIP_EMULATOR_HOME', '')\n"
                       "    if home and home not in sys.path:\n"
                       "        sys.path.append(home)\n"
                       "    from asmgen.launch.hipemulator.start import register\n"
                       "    register()\n"
                       "_asmgen_start()\n"
                       "del _asmgen_start\n");
    release(state);
    if (!dispatch) say("asmgen hip-emulator: the emulator cannot be loaded into this Python (its dependencies are asmgen's)\n");
    return !dispatch;
}

static i64 forward(int number, const i64 *arguments) {
    if (!dispatch && start()) return 3; /* hipErrorNotInitialized */
    return dispatch(number, arguments);
}

