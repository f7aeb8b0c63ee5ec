#include "cli/text_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "base/option_names.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

// Reads the available bytes, at least one unless the input ends.
Result<size_t> read_some(int file, const std::string& name, std::string& buffer) {
  const size_t before = buffer.size();
  buffer.resize(before + kReadBytes);
  ssize_t got;
  do got = ::read(file, buffer.data() + before, kReadBytes);
  while (got < 0 && errno == EINTR);
  buffer.resize(before + static_cast<size_t>(got > 0 ? got : 0));
  if (got < 0) return error_of(Error::Kind::kIo, name, "cannot be read: {}", std::strerror(errno));
  return static_cast<size_t>(got);
}

}  // namespace

Status each_line_batch(const std::vector<std::string>& files,
                       const std::function<bool(const std::vector<std::string_view>&, size_t)>& f) {
  size_t number = 1;
  std::vector<std::string> names = files;
  if (names.empty()) names.emplace_back("-");
  for (const std::string& name : names) {
    const int file = name == "-" ? 0 : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return error_of(Error::Kind::kNotFound, name, "cannot be opened: {}", std::strerror(errno));
    const size_t first_of_file = number;
    std::string buffer;
    std::vector<std::string_view> lines;
    Status status = Done{};
    for (bool more = true; more;) {
      const size_t seen = buffer.size();  // no line break before this
      const auto got = read_some(file, name, buffer);
      if (!got.ok()) {
        status = got.error();
        break;
      }
      more = *got > 0;
      lines.clear();
      size_t done = 0;
      for (size_t search = seen; done < buffer.size();) {
        size_t end = buffer.find('\n', search);
        if (end == std::string::npos) {
          if (more) break;
          end = buffer.size();
        }
        std::string_view line = std::string_view(buffer).substr(done, end - done);
        if (line.ends_with('\r')) line.remove_suffix(1);
        lines.push_back(line);
        done = search = std::min(end + 1, buffer.size());
      }
      if (!lines.empty() && !f(lines, number)) break;
      number += lines.size();
      if (buffer.size() - done >= Tokenizer::kTextLimit) {
        status = error_of(Error::Kind::kLimit, fmt::format("{}: line {}", name, number - first_of_file + 1),
                          "has more than {} bytes; split it", Tokenizer::kTextLimit - 1);
        break;
      }
      buffer.erase(0, done);
    }
    if (file != 0) ::close(file);
    MAKAR_RETURN_IF_ERROR(status);
  }
  return Done{};
}

Result<std::string> read_whole(const std::vector<std::string>& files) {
  std::string text;
  if (files.empty()) {
    if (isatty(STDIN_FILENO)) fmt::print(stderr, "makar: reading standard input; Ctrl-D ends it\n");
    while (true) {
      MAKAR_TRY(const size_t got, read_some(0, "standard input", text));
      if (got == 0) return text;
      if (text.size() >= Tokenizer::kTextLimit)
        return error_of(Error::Kind::kLimit, "standard input",
                        "has more than {} bytes; split it into smaller inputs", Tokenizer::kTextLimit - 1);
    }
  }
  for (const std::string& file : files) {
    MAKAR_TRY(const std::string one, read_file(file));
    text += one;
  }
  return text;
}

bool print_out(std::string_view text) {
  const bool good = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return std::fflush(stdout) == 0 && good;
}

std::string error_line(const Error& error, size_t line) {
  return Json{{"error", {{"message", to_valid_utf8(options_as_fields(error.text()))}, {"line", line}}}}
             .dump() +
         "\n";
}

}  // namespace makar
