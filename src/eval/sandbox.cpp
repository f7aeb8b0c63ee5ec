#include "eval/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"

namespace makar {
namespace {

namespace fs = std::filesystem;

struct Language {
  const char* name;
  const char* file;
  std::vector<std::string> compile, run;  // the first word is looked up in kPath
  bool limit_memory;
  // Appended to the source: writes a marker file, so that a program that exits early does not pass. "": only
  // the exit status counts.
  const char* ending;
};
const std::vector<Language>& languages() {
  static const std::vector<Language> all = {
      {"python", "program.py", {}, {"python3", "-I", "program.py"}, true, "\nopen('{}', 'w').close()\n"},
      {"javascript",
       "program.js",
       {},
       {"node", "program.js"},
       false,
       "\nrequire('node:fs').writeFileSync('{}', '');\n"},
      {"cpp",
       "program.cpp",
       {"c++", "-std=c++17", "-O1", "-w", "program.cpp", "-o", "program"},
       {"./program"},
       true,
       ""},
  };
  return all;
}
constexpr double kMinCompileSeconds = 60;
constexpr std::array kPath = {"/usr/bin", "/usr/local/bin", "/bin"};
constexpr std::array kReadable = {"/usr", "/lib", "/lib64", "/bin"};
constexpr std::array kReadableFiles = {"/dev/urandom", "/etc/ld.so.cache", "/etc/ssl/openssl.cnf"};

constexpr uint64_t kReadAccess =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kAllAccess = kReadAccess | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

bool allow(int rules, const char* path, uint64_t access) {
  const int folder = open(path, O_PATH | O_CLOEXEC);
  if (folder < 0) return errno == ENOENT;  // not every system has /lib64
  landlock_path_beneath_attr rule = {access, folder};
  const bool added = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  close(folder);
  return added;
}

bool restrict_files(const char* folder) {
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = kAllAccess;
  const int rules = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0));
  if (rules < 0) return false;
  bool ok = allow(rules, folder, kAllAccess) &&
            allow(rules, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
  for (const char* path : kReadable) ok = ok && allow(rules, path, kReadAccess);
  for (const char* path : kReadableFiles) ok = ok && allow(rules, path, LANDLOCK_ACCESS_FS_READ_FILE);
  ok = ok && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return ok;
}

// Denied calls fail with EPERM; clone3, whose flags a filter cannot read, is reported as missing.
bool restrict_calls(bool allow_processes) {
#if defined(__x86_64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
  constexpr uint32_t kArchitecture = 0;  // unknown: programs are not run
#endif
  if (kArchitecture == 0) return false;
  const auto deny = [](uint32_t number) { return SECCOMP_RET_ERRNO | (number & SECCOMP_RET_DATA); };
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),  // x32 calls
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const auto add = [&](uint32_t call, uint32_t action) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, action));
  };
  for (const long call : {SYS_socket,
                          SYS_socketpair,
                          SYS_io_uring_setup,
                          SYS_ptrace,
                          SYS_process_vm_readv,
                          SYS_process_vm_writev,
                          SYS_kill,
                          SYS_tkill,
                          SYS_tgkill,
                          SYS_pidfd_open,
                          SYS_pidfd_send_signal,
                          SYS_mount,
                          SYS_umount2,
                          SYS_unshare,
                          SYS_setns,
                          SYS_bpf,
                          SYS_perf_event_open,
                          SYS_keyctl,
                          SYS_add_key,
                          SYS_chroot,
                          SYS_reboot,
                          SYS_setrlimit,
                          SYS_prlimit64,
                          SYS_shmget,
                          SYS_msgget,
                          SYS_semget})
    add(static_cast<uint32_t>(call), deny(EPERM));
  if (!allow_processes) {
    add(SYS_clone3, deny(ENOSYS));
#if defined(__x86_64__)
    add(SYS_fork, deny(EPERM)), add(SYS_vfork, deny(EPERM));
#endif
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, deny(EPERM)));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool limit(int resource, int64_t value) {
  const rlimit both = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  return setrlimit(static_cast<__rlimit_resource>(resource), &both) == 0;
}

struct Process {
  std::string program;
  std::vector<std::string> arguments;
  std::string folder;
  bool limit_memory = true, allow_processes = false;
  int output = -1;  // file descriptor of its output; -1: discarded
};

// Runs in the child process: restricts it and executes the program. Writes the name of a failed step to
// `report`.
[[noreturn]] void run_child(const Process& p, const ProgramLimits& limits, std::vector<char*>& argv,
                            int report) {
  const char* failed_step = nullptr;
  const auto need = [&](bool ok, const char* what) {
    if (!ok && !failed_step) failed_step = what;
  };
  setsid();
  need(chdir(p.folder.c_str()) == 0, "chdir");
  const int null = open("/dev/null", O_RDWR);
  need(null >= 0 && dup2(null, 0) == 0 && dup2(p.output < 0 ? null : p.output, 1) == 1 &&
           dup2(p.output < 0 ? null : p.output, 2) == 2,
       "/dev/null");
  for (int file = 3; file < 1024; ++file)
    if (file != report) close(file);
  need(limit(RLIMIT_CPU, static_cast<int64_t>(limits.seconds) + 1), "the limit of CPU time");
  need(limit(RLIMIT_FSIZE, limits.file), "the limit of file sizes");
  need(limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, 64), "limits");
  if (p.limit_memory) need(limit(RLIMIT_AS, limits.memory), "the limit of memory");
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  need(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "PR_SET_PDEATHSIG");
  need(restrict_files(p.folder.c_str()), "Landlock");
  need(restrict_calls(p.allow_processes), "seccomp");
  if (!failed_step) {
    std::string home = "HOME=" + p.folder, temporary = "TMPDIR=" + p.folder,
                path = "PATH=/usr/bin:/usr/local/bin:/bin";
    std::array<char*, 4> environment = {home.data(), temporary.data(), path.data(), nullptr};
    execve(p.program.c_str(), argv.data(), environment.data());
    failed_step = "execve";
  }
  [[maybe_unused]] const auto written = write(report, failed_step, std::strlen(failed_step));
  _exit(126);
}

// Whether the files below a folder take more than `bytes`, or there are too many of them.
bool is_larger(const std::string& folder, int64_t bytes) {
  constexpr int64_t kMaxFiles = 20000, kMinFileBytes = 4096;
  int64_t files = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::error_code ignored;
    const bool plain = it->is_regular_file(ignored) && !it->is_symlink(ignored);
    const auto size = plain ? it->file_size(ignored) : 0;
    bytes -= std::max<int64_t>(kMinFileBytes, ignored ? 0 : static_cast<int64_t>(size));
    if (bytes < 0 || ++files > kMaxFiles) return true;
  }
  // An entry that cannot be read counts as too large; one that was deleted in the meantime does not.
  return code && code != std::errc::no_such_file_or_directory;
}

struct ProcessResult {
  bool success = false, timed_out = false, too_large = false;
};
Result<ProcessResult> run(const Process& p, const ProgramLimits& limits) {
  std::vector<std::string> arguments = p.arguments;
  std::vector<char*> argv;
  for (std::string& one : arguments) argv.push_back(one.data());
  argv.push_back(nullptr);
  std::array<int, 2> report = {};
  if (pipe2(report.data(), O_CLOEXEC) != 0) return io_error("sandbox", "make a pipe");
  const pid_t child = fork();
  if (child == 0) run_child(p, limits, argv, report[1]);
  close(report[1]);
  if (child < 0) {
    close(report[0]);
    return io_error("sandbox", "start a process");
  }
  std::array<char, 64> failed_step = {};
  const auto size = read(report[0], failed_step.data(), failed_step.size());  // ends when the program starts
  close(report[0]);
  ProcessResult out;
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limits.seconds);
  for (int checks = 1;; ++checks) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    out.timed_out = std::chrono::steady_clock::now() > deadline;
    out.too_large = checks % 50 == 0 && is_larger(p.folder, limits.disk);
    if (out.timed_out || out.too_large) {
      ::kill(-child, SIGKILL), ::kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(-child, SIGKILL);  // processes that it left running
  if (size > 0)
    return error_of(Error::Kind::kUnsupported, "sandbox", "cannot be set up: {} failed",
                    std::string(failed_step.data(), static_cast<size_t>(size)));
  out.success = !out.timed_out && !out.too_large && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return out;
}

Result<std::string> find_program(const std::string& name, const std::string& folder) {
  if (name.starts_with("./")) return folder + name.substr(1);
  for (const char* path : kPath)
    if (const std::string full = std::string(path) + "/" + name; access(full.c_str(), X_OK) == 0) return full;
  return error_of(Error::Kind::kNotFound, name, "is not in {}; install it to run programs",
                  fmt::join(kPath, ", "));
}

// The output of a program, in a file without a name, which the program cannot replace.
struct Output {
  int file = -1;
  ~Output() {
    if (file >= 0) close(file);
  }
  std::string read(int64_t max) const {
    if (file < 0) return {};
    std::string out(static_cast<size_t>(max), '\0');
    const ssize_t size = pread(file, out.data(), out.size(), 0);
    out.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return out;
  }
};

struct Folder {
  std::string path;
  ~Folder() {
    std::error_code code;
    if (!path.empty()) fs::remove_all(path, code);
  }
};

}  // namespace

std::vector<std::string> program_languages() {
  std::vector<std::string> out;
  for (const Language& one : languages()) out.emplace_back(one.name);
  return out;
}

Result<ProgramOutcome> run_program(const std::string& language, const std::string& source,
                                   const ProgramLimits& limits) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
    return error_of(
        Error::Kind::kUnsupported, "sandbox",
        "programs run only with Landlock, which this kernel lacks (Linux 5.13, CONFIG_SECURITY_LANDLOCK)");
  const Language* spec = nullptr;
  for (const Language& one : languages())
    if (language == one.name) spec = &one;
  check(spec != nullptr, "unknown language " + language);
  std::error_code code;
  std::string pattern = (fs::temp_directory_path(code) / "makar-program-XXXXXX").string();
  if (code || !mkdtemp(pattern.data())) return io_error(pattern, "make a folder");
  const Folder folder{pattern};
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return io_error("sandbox", "draw a random number");
  const std::string marker = fmt::format("end-{:016x}", random), ending = spec->ending;
  MAKAR_RETURN_IF_ERROR(
      write_file(folder.path + "/" + spec->file,
                 ending.empty() ? source : source + fmt::format(fmt::runtime(ending), marker)));
  Output captured;
  if (limits.output > 0) {
    const std::string path = folder.path + "/printed";
    captured.file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (captured.file < 0) return io_error(path, "make a file");
    ::unlink(path.c_str());
  }
  ProgramOutcome out;
  if (!spec->compile.empty()) {
    MAKAR_TRY(const std::string program, find_program(spec->compile[0], folder.path));
    ProgramLimits compile_limits = limits;
    compile_limits.seconds = std::max(limits.seconds, kMinCompileSeconds);
    MAKAR_TRY(const ProcessResult ended,
              run({program, spec->compile, folder.path, true, true, captured.file}, compile_limits));
    out.compiled = ended.success, out.timed_out = ended.timed_out;
    out.output = captured.read(limits.output);
    if (!ended.success) return out;
  }
  MAKAR_TRY(const std::string program, find_program(spec->run[0], folder.path));
  MAKAR_TRY(const ProcessResult ended,
            run({program, spec->run, folder.path, spec->limit_memory, false, captured.file}, limits));
  out.output = captured.read(limits.output);
  out.passed = ended.success && (ending.empty() || fs::exists(folder.path + "/" + marker, code));
  out.timed_out = ended.timed_out;
  return out;
}

}  // namespace makar
