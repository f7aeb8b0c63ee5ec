#include "eval/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/trim.h"
#include "eval/sandbox_folder.h"
#include "eval/sandbox_rules.h"

namespace makar {
namespace {

struct Language {
  const char* name;
  const char* file;
  std::vector<std::string> compile, run;  // the first word is looked up in kPath
  // RLIMIT_DATA for JavaScript: node reserves far more address space than it uses.
  int memory_limit;
  // Appended to the source: writes a marker file, so that a program that exits early does not pass. "": only
  // the exit status counts.
  const char* ending;
  const char* smallest;  // a program that does nothing
};
const std::vector<Language>& languages() {
  static const std::vector<Language> all = {
      {"python", "program.py", {}, {"python3", "program.py"}, RLIMIT_AS, "\nopen('{}', 'w').close()\n", ""},
      {"javascript",
       "program.js",
       {},
       {"node", "--random-seed=1", "program.js"},
       RLIMIT_DATA,
       "\nrequire('node:fs').writeFileSync('{}', '');\n",
       ""},
      {"cpp",
       "program.cpp",
       {"c++", "-std=c++17", "-O1", "-w", "program.cpp", "-o", "program"},
       {"./program"},
       RLIMIT_AS,
       "",
       "int main() {}"},
  };
  return all;
}
constexpr std::array kPath = {"/usr/bin", "/usr/local/bin", "/bin"};
// Python: sets of texts in the same order in every run; no modules from the program's folder or the user's.
constexpr std::array kEnvironment = {"PATH=/usr/bin:/usr/local/bin:/bin", "PYTHONHASHSEED=0",
                                     "PYTHONSAFEPATH=1", "PYTHONNOUSERSITE=1"};

// Compilers write larger files than programs.
constexpr double kMinCompileSeconds = 60;
constexpr int64_t kMinCompileFile = int64_t{64} << 20;
// With the limit of a file's size: the files that a program keeps open after it removed them take 512 MiB.
constexpr int64_t kOpenFiles = 32, kCompilerOpenFiles = 64;
constexpr int64_t kThreads = 256;

bool limit(int resource, int64_t value) {
  const rlimit both = {static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  return setrlimit(static_cast<__rlimit_resource>(resource), &both) == 0;
}

struct Process {
  std::string program;
  std::vector<std::string> arguments;
  std::string folder;
  int memory_limit = RLIMIT_AS;
  bool compiles = false;
  int output = -1;  // file descriptor of its output; -1: discarded
};

// Best effort, for this process: the kernel ends it first when memory runs out, and its addresses are the
// same in every run (containers may refuse this).
void prepare_process() {
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    [[maybe_unused]] const auto written = write(file, "1000", 4);
    close(file);
  }
  personality(ADDR_NO_RANDOMIZE);
}

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
  constexpr unsigned kLast = ~0u;
  const auto kept = static_cast<unsigned>(report);
  need((kept == 3 || syscall(SYS_close_range, 3u, kept - 1, 0) == 0) &&
           syscall(SYS_close_range, kept + 1, kLast, 0) == 0,
       "close_range");
  prepare_process();
  need(limit(RLIMIT_CPU, static_cast<int64_t>(limits.seconds) + 1), "the limit of CPU time");
  need(limit(RLIMIT_FSIZE, limits.file), "the limit of file sizes");
  need(limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, p.compiles ? kCompilerOpenFiles : kOpenFiles),
       "the limit of open files");
  need(limit(p.memory_limit, limits.memory), "the limit of memory");
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  need(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "PR_SET_PDEATHSIG");
  const int version = landlock_version();
  need(restrict_files(p.folder.c_str(), version), "Landlock");
  need(drop_capabilities(), "capset");
  need(restrict_calls(version, p.compiles), "seccomp");
  if (!failed_step) {
    std::vector<std::string> variables(kEnvironment.begin(), kEnvironment.end());
    variables.push_back("HOME=" + p.folder), variables.push_back("TMPDIR=" + p.folder);
    std::vector<char*> environment;
    for (std::string& one : variables) environment.push_back(one.data());
    environment.push_back(nullptr);
    execve(p.program.c_str(), argv.data(), environment.data());
    failed_step = "execve";
  }
  [[maybe_unused]] const auto written = write(report, failed_step, std::strlen(failed_step));
  _exit(126);
}

// Whether a running process has too many threads or too much memory. The limits above do not count threads,
// nor the shared memory of JavaScript.
bool uses_too_much(pid_t process, int64_t memory) {
  const std::string proc = "/proc/" + std::to_string(process);
  struct stat threads = {};  // one link per thread, and two for the folder
  if (stat((proc + "/task").c_str(), &threads) == 0 && static_cast<int64_t>(threads.st_nlink) > kThreads + 2)
    return true;
  int64_t total = 0, resident = 0;  // pages
  std::ifstream(proc + "/statm") >> total >> resident;
  return resident > memory / sysconf(_SC_PAGESIZE);
}

struct ProcessResult {
  bool success = false, timed_out = false, stopped = false;
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
    out.stopped =
        uses_too_much(child, limits.memory) || (checks % 50 == 0 && is_larger(p.folder, limits.disk));
    if (out.timed_out || out.stopped) {
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
  out.success = !out.timed_out && !out.stopped && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return out;
}

Result<std::string> find_program(const std::string& name) {
  if (name.starts_with("./")) return name;
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

Result<ProgramOutcome> run_in(const std::string& folder, const Language& language, const std::string& source,
                              const ProgramLimits& limits) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return io_error("sandbox", "draw a random number");
  const std::string marker = fmt::format("end-{:016x}", random), ending = language.ending;
  MAKAR_RETURN_IF_ERROR(
      write_file(folder + "/" + language.file,
                 ending.empty() ? source : source + fmt::format(fmt::runtime(ending), marker)));
  Output captured;
  if (limits.output > 0) {
    const std::string path = folder + "/printed";
    captured.file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (captured.file < 0) return io_error(path, "make a file");
    ::unlink(path.c_str());
  }
  ProgramOutcome out;
  if (!language.compile.empty()) {
    MAKAR_TRY(const std::string compiler, find_program(language.compile[0]));
    ProgramLimits compile_limits = limits;
    compile_limits.seconds = std::max(limits.seconds, kMinCompileSeconds);
    compile_limits.file = std::max(limits.file, kMinCompileFile);
    MAKAR_TRY(const ProcessResult ended,
              run({compiler, language.compile, folder, RLIMIT_AS, true, captured.file}, compile_limits));
    out.compiled = ended.success, out.timed_out = ended.timed_out;
    out.output = captured.read(limits.output);
    if (!ended.success) return out;
  }
  MAKAR_TRY(const std::string program, find_program(language.run[0]));
  MAKAR_TRY(const ProcessResult ended,
            run({program, language.run, folder, language.memory_limit, false, captured.file}, limits));
  out.output = captured.read(limits.output);
  out.passed = ended.success && (ending.empty() || path_exists(folder + "/" + marker));
  out.timed_out = ended.timed_out;
  return out;
}

const Language& language_named(const std::string& name) {
  const Language* found = nullptr;
  for (const Language& one : languages())
    if (name == one.name) found = &one;
  check(found != nullptr, "unknown language " + name);
  return *found;
}

}  // namespace

std::vector<std::string> program_languages() {
  std::vector<std::string> out;
  for (const Language& one : languages()) out.emplace_back(one.name);
  return out;
}

Result<ProgramOutcome> run_program(const std::string& language, const std::string& source,
                                   const ProgramLimits& limits) {
  if (landlock_version() < 1)
    return error_of(
        Error::Kind::kUnsupported, "sandbox",
        "programs run only with Landlock, which this kernel lacks (Linux 5.13, CONFIG_SECURITY_LANDLOCK)");
  const Language& known = language_named(language);
  MAKAR_TRY(const std::string folder, make_program_folder());
  Result<ProgramOutcome> outcome = run_in(folder, known, source, limits);
  const Status removed = remove_program_folder(folder);
  if (outcome.ok()) MAKAR_RETURN_IF_ERROR(removed);
  return outcome;
}

Status check_language(const std::string& language, const ProgramLimits& limits) {
  ProgramLimits printing = limits;
  printing.output = 2000;
  MAKAR_TRY(const ProgramOutcome outcome, run_program(language, language_named(language).smallest, printing));
  if (outcome.passed) return Done{};
  const std::string printed = trimmed(outcome.output);
  return error_of(Error::Kind::kUnsupported, "sandbox", "{} does not run here: the smallest program {}{}{}",
                  language, outcome.timed_out ? "takes too long" : "fails", printed.empty() ? "" : ": ",
                  printed);
}

}  // namespace makar
