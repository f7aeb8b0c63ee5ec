#include "eval/sandbox.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>

#include "base/file.h"
#include "base/trim.h"
#include "eval/sandbox_folder.h"
#include "eval/sandbox_process.h"
#include "eval/sandbox_rules.h"

namespace makar {
namespace {

struct Language {
  const char* name;
  const char* file;
  std::vector<std::string> compile, run;  // the first word is looked up in kPath
  // RLIMIT_DATA for JavaScript: node reserves far more address space than it uses.
  int memory_limit;
  // Writes a marker file, so that a program that exits early does not pass. Appended to the source, or a file
  // of its own.
  const char* ending;
  const char* ending_file;  // nullptr: none
  const char* smallest;     // a program that does nothing
};
// The linker calls __wrap_main instead of main, and __real_main is main.
constexpr const char* kCppEnding = R"(
#include <fcntl.h>
extern "C" int __real_main(int, char**, char**);
extern "C" int __wrap_main(int count, char** arguments, char** environment) {{
  const int status = __real_main(count, arguments, environment);
  if (status == 0) open("{}", O_CREAT | O_WRONLY, 0600);
  return status;
}}
)";
const std::vector<Language>& languages() {
  static const std::vector<Language> all = {
      {"python",
       "program.py",
       {},
       {"python3", "program.py"},
       RLIMIT_AS,
       "\nopen('{}', 'w').close()\n",
       nullptr,
       ""},
      {"javascript",
       "program.js",
       {},
       {"node", "--random-seed=1", "program.js"},
       RLIMIT_DATA,
       "\nrequire('node:fs').writeFileSync('{}', '');\n",
       nullptr,
       ""},
      {"cpp",
       "program.cpp",
       {"c++", "-std=c++17", "-O1", "-w", "program.cpp", "ending.cpp", "-Wl,--wrap=main", "-o", "program"},
       {"./program"},
       RLIMIT_AS,
       kCppEnding,
       "ending.cpp",
       "int main() {}"},
  };
  return all;
}
constexpr std::array kPath = {"/usr/bin", "/usr/local/bin", "/bin"};

// Compilers write larger files than programs.
constexpr double kMinCompileSeconds = 60;
constexpr int64_t kMinCompileFile = int64_t{64} << 20;

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
  const std::string marker = fmt::format("end-{:016x}", random),
                    ending = fmt::format(fmt::runtime(language.ending), marker);
  MAKAR_RETURN_IF_ERROR(
      write_file(folder + "/" + language.file, language.ending_file ? source : source + ending));
  if (language.ending_file) MAKAR_RETURN_IF_ERROR(write_file(folder + "/" + language.ending_file, ending));
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
    MAKAR_TRY(
        const ProcessResult ended,
        run_process({compiler, language.compile, folder, RLIMIT_AS, true, captured.file}, compile_limits));
    out.compiled = ended.success, out.timed_out = ended.timed_out;
    out.output = captured.read(limits.output);
    if (!ended.success) return out;
  }
  MAKAR_TRY(const std::string program, find_program(language.run[0]));
  MAKAR_TRY(
      const ProcessResult ended,
      run_process({program, language.run, folder, language.memory_limit, false, captured.file}, limits));
  out.output = captured.read(limits.output);
  out.passed = ended.success && path_exists(folder + "/" + marker);
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
  MAKAR_TRY(ProgramFolder folder, ProgramFolder::make());
  Result<ProgramOutcome> outcome = run_in(folder.path(), known, source, limits);
  const Status removed = folder.remove();
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
