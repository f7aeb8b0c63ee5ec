// Programs in the sandbox: outcomes, limits, and what they may not do.
#include "eval/sandbox.h"

#include <gtest/gtest.h>
#include <sys/personality.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "sandbox_fixture.h"
#include "scratch_folder.h"

namespace makar {
namespace {

TEST_F(Sandbox, TestsPassOrFail) {
  EXPECT_TRUE(passes("def f(x):\n    return x + 1\nassert f(1) == 2\n"));
  EXPECT_FALSE(passes("def f(x):\n    return x\nassert f(1) == 2\n"));
  EXPECT_FALSE(passes("def f(:\n"));
  EXPECT_TRUE(passes("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\n"));
}

TEST_F(Sandbox, AProgramThatExitsEarlyDoesNotPass) {
  EXPECT_FALSE(passes("import sys\nsys.exit(0)\n"));
  EXPECT_FALSE(passes("import os\nos._exit(0)\n"));
}

TEST_F(Sandbox, TimeAndMemoryAreLimited) {
  ProgramLimits limits;
  limits.seconds = 0.5;
  const auto endless = run_program("python", "while True: pass\n", limits);
  ASSERT_TRUE(endless.ok());
  EXPECT_TRUE(endless->timed_out);
  EXPECT_FALSE(endless->passed);
  EXPECT_FALSE(passes("import time\ntime.sleep(60)\n", "python", 0.5));
  EXPECT_FALSE(passes("x = bytearray(4 << 30)\n"));
  EXPECT_FALSE(passes("f = open('big', 'wb')\nfor i in range(200): f.write(bytes(1 << 20))\n"));
}

TEST_F(Sandbox, TheTotalSizeOfAllFilesIsLimited) {
  ProgramLimits limits;
  limits.seconds = 60, limits.disk = 8 << 20;
  const auto begin = std::chrono::steady_clock::now();
  const auto filling = run_program(
      "python",
      "import time\nfor i in range(40): open('f%d' % i, 'wb').write(bytes(1 << 20))\ntime.sleep(60)\n",
      limits);
  ASSERT_TRUE(filling.ok());
  EXPECT_FALSE(filling->passed);
  EXPECT_FALSE(filling->timed_out);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
}

TEST_F(Sandbox, DeniesNetworkProcessesAndOtherFiles) {
  const ScratchFolder folder;
  const std::string precious = folder.path() + "/precious";
  ASSERT_TRUE(write_file(precious, "x").ok());
  // Each denied() call must raise an OSError; writing in the program's own folder must work.
  EXPECT_TRUE(passes(R"(
import os, signal, socket, subprocess
def denied(f, *arguments):
    try:
        f(*arguments)
    except OSError:
        return
    raise SystemExit(1)
denied(socket.socket)
denied(os.fork)
denied(subprocess.run, ['/bin/true'])
denied(os.kill, os.getppid(), signal.SIGTERM)
denied(open, '/etc/passwd')
denied(open, ')" + precious +
                     R"(')
denied(open, ')" + precious +
                     R"(', 'w')
denied(os.remove, ')" +
                     precious + R"(')
denied(open, '/tmp/makar-outside', 'w')
with open('own', 'w') as f: f.write('x')
)"));
  EXPECT_TRUE(std::filesystem::exists(precious));
}

TEST_F(Sandbox, LeavesFilesOutsideAsTheyAre) {
  const ScratchFolder folder;
  const std::string precious = folder.write("precious", "text");
  struct stat before = {}, after = {};
  ASSERT_EQ(stat(precious.c_str(), &before), 0);
  EXPECT_TRUE(passes("import ctypes, os\npath = '" + precious + R"('
def denied(f, *arguments, **named):
    try:
        f(*arguments, **named)
    except OSError:
        return
    raise SystemExit(1)
denied(os.truncate, path, 0)
denied(os.chmod, path, 0o777)
denied(os.chown, path, 1, 1)
denied(os.utime, path)
denied(os.utime, path, follow_symlinks=False)
denied(os.setxattr, path, 'user.x', b'1')
denied(os.memfd_create, 'x')
# No capabilities, even if root runs the test.
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capget(header, data) == 0 and not any(data)
)"));
  ASSERT_EQ(stat(precious.c_str(), &after), 0);
  EXPECT_EQ(read_file(precious).value(), "text");
  EXPECT_EQ(before.st_mode, after.st_mode);
  EXPECT_EQ(before.st_uid, after.st_uid);
  EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
  EXPECT_EQ(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec);
}

TEST_F(Sandbox, ThreadsAndOpenFilesAreLimited) {
  EXPECT_TRUE(is_stopped(R"(
import threading, time
threading.stack_size(65536)
for i in range(1000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
)"));
  EXPECT_FALSE(passes("files = [open('f%d' % i, 'w') for i in range(40)]\n"));
  EXPECT_TRUE(passes("files = [open('f%d' % i, 'w') for i in range(20)]\n"));
}

// A mapped file takes space on the disk after it is removed and closed.
TEST_F(Sandbox, MappedFilesThatWereRemovedAreLimited) {
  const std::string map_files = R"(
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 5
def map_files(count):
    for i in range(count):
        with open('m', 'wb+') as f:
            f.truncate(4096)
            os.remove('m')
            assert libc.mmap(None, 4096, 1, 1, f.fileno(), 0) != 2 ** 64 - 1
)";
  EXPECT_TRUE(passes(map_files + "map_files(20)\ntime.sleep(0.3)\n"));
  EXPECT_TRUE(is_stopped(map_files + "map_files(40)\ntime.sleep(60)\n"));
  // Memory that threads share is no file.
  EXPECT_TRUE(
      passes("import mmap, time\nkept = [mmap.mmap(-1, 4096) for i in range(40)]\ntime.sleep(0.3)\n"));
  if (!runs("cpp")) GTEST_SKIP() << "no C++ compiler";
  // In a process whose first thread has ended.
  EXPECT_TRUE(is_stopped(R"(
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
int main() {
  std::thread([] {
    for (int i = 0; i < 40; ++i) {
      const int file = open("m", O_RDWR | O_CREAT, 0600);
      unlink("m");
      mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
      close(file);
    }
    sleep(60);
  }).detach();
  syscall(SYS_exit, 0);
})",
                         "cpp"));
}

TEST_F(Sandbox, TheMemoryOfJavaScriptIsLimited) {
  if (!runs("javascript")) GTEST_SKIP() << "no node";
  EXPECT_TRUE(is_stopped("const a = []; for (;;) a.push(new Uint8Array(1 << 26).fill(1));", "javascript"));
  EXPECT_TRUE(
      is_stopped("const a = []; for (;;) a.push(new Uint8Array(new SharedArrayBuffer(1 << 26)).fill(1));",
                 "javascript"));
}

TEST_F(Sandbox, RunsAreReproducible) {
  const std::string hashes = "print(hash('text'), {'a', 'b', 'c', 'd', 'e'})\n";
  EXPECT_EQ(printed("python", hashes), printed("python", hashes));
  // Not from the program's folder: modules, as with -P.
  EXPECT_EQ(
      printed("python", "import sys\nprint('' in sys.path, any('makar-program' in p for p in sys.path))"),
      "False False\n");
  const int before = personality(0xffffffff);
  if (personality(static_cast<unsigned>(before) | ADDR_NO_RANDOMIZE) >= 0) {  // containers may refuse
    personality(static_cast<unsigned>(before));
    EXPECT_EQ(printed("python", "print(id(object()))"), printed("python", "print(id(object()))"));
  }
  if (!runs("javascript")) GTEST_SKIP() << "no node";
  EXPECT_EQ(printed("javascript", "console.log(Math.random())"),
            printed("javascript", "console.log(Math.random())"));
}

TEST_F(Sandbox, ALanguageThatCannotRunIsAnError) {
  EXPECT_TRUE(check_language("python").ok());
  ProgramLimits limits;
  limits.memory = 8 << 20;
  const Status refused = check_language("python", limits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::kUnsupported);
  EXPECT_NE(refused.error().message.find("python does not run here"), std::string::npos);
}

TEST_F(Sandbox, RunsJavaScriptAndCpp) {
  if (runs("javascript")) {
    EXPECT_TRUE(passes("const assert = require('node:assert'); assert.deepEqual([1], [1]);", "javascript"));
    EXPECT_FALSE(passes("require('node:assert').deepEqual([1], [2]);", "javascript"));
    EXPECT_FALSE(passes("process.exit(0);", "javascript"));
  }
  if (!runs("cpp")) GTEST_SKIP() << "no C++ compiler";
  EXPECT_FALSE(passes("#include <cassert>\nint main() { assert(false); }", "cpp"));
  EXPECT_FALSE(run_program("cpp", "int main( {")->compiled);
  EXPECT_TRUE(passes("int main(int count, char**) { return count - 1; }", "cpp"));
  EXPECT_FALSE(passes("int main() { return 1; }", "cpp"));
  EXPECT_FALSE(
      passes("#include <cstdlib>\nint add(int, int) { std::exit(0); }\n"
             "int main() { return add(1, 2) == 3 ? 0 : 1; }",
             "cpp"));
  EXPECT_FALSE(
      passes("#include <unistd.h>\nstruct Early {\n  Early() { _exit(0); }\n} early;\n"
             "int main() { return 1; }",
             "cpp"));
}

}  // namespace
}  // namespace makar
