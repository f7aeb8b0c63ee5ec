#include "retrieval/load/pdf.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/file.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace makar {
namespace {

constexpr int kNoProgram = 127;

void limit(int resource, int64_t max) {
  const rlimit value{static_cast<rlim_t>(max), static_cast<rlim_t>(max)};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &value);
}

}  // namespace

Result<std::string> read_pdf(const std::string& path, const PdfLimits& limits, const std::string& program) {
  if (!is_file(path)) return error_of(Error::Kind::kNotFound, path, "no such file");
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return io_error(path, "start pdftotext");
  // A path that begins with a dash would be an option.
  const std::string file = path.starts_with('-') ? "./" + path : path;
  const char* const arguments[] = {program.c_str(), "-q", "-enc", "UTF-8", file.c_str(), "-", nullptr};
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(out[0]), ::close(out[1]);
    return io_error(path, "start pdftotext");
  }
  if (child == 0) {  // only calls that are safe after fork
    limit(RLIMIT_CPU, limits.cpu_seconds);
    limit(RLIMIT_AS, limits.memory_bytes);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0), ::dup2(out[1], 1), ::dup2(null, 2);
    ::execvp(program.c_str(), const_cast<char* const*>(arguments));
    ::_exit(kNoProgram);
  }
  ::close(out[1]);
  std::string text;
  bool too_long = false;
  for (char buffer[1 << 16];;) {
    const ssize_t n = ::read(out[0], buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (text.size() + static_cast<size_t>(n) > limits.output_bytes) {
      too_long = true;
      ::kill(child, SIGKILL);
      break;
    }
    text.append(buffer, static_cast<size_t>(n));
  }
  ::close(out[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (too_long)
    return error_of(Error::Kind::kLimit, path, "has more than {} bytes of text", limits.output_bytes);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram)
    return error_of(Error::Kind::kUnsupported, path,
                    "PDF files need the program pdftotext; install the package poppler-utils");
  if (WIFSIGNALED(status))
    return error_of(
        Error::Kind::kLimit, path,
        "pdftotext was ended by signal {} ({}); the file is damaged or needs more than {} s or {} MiB",
        WTERMSIG(status), ::strsignal(WTERMSIG(status)), limits.cpu_seconds, limits.memory_bytes >> 20);
  if (WEXITSTATUS(status) != 0)
    return error_at(path, "pdftotext cannot read it (exit code {}): not a PDF file, damaged, or encrypted",
                    WEXITSTATUS(status));
  return is_valid_utf8(text) ? text : to_valid_utf8(text);
}

}  // namespace makar
