#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <algorithm>

#include "base/quote.h"
#include "text/field.h"
#include "text/scan.h"
#include "text/unicode.h"

namespace makar {
namespace {

// Enough for every real pattern on a word of a megabyte, and about one second at worst.
constexpr uint32_t kMaxMatchSteps = 20'000'000;
constexpr uint32_t kMaxHeapKib = 64 << 10;
constexpr size_t kInitialJitStackBytes = 64 << 10, kMaxJitStackBytes = size_t{16} << 20;
constexpr size_t kMaxPatternBytes = 64 << 10;

template <class T, void (*Free)(T*)>
struct Freer {
  void operator()(T* p) const { Free(p); }
};
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context, pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack, pcre2_jit_stack_free>>;

std::string pcre_message(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  Scanner::Kind scanner = Scanner::Kind::kNone;  // used instead of PCRE2 when the pattern has one
  ~Code() { pcre2_code_free(code); }
};

Result<Regex> pattern_field(const Json& json) {
  const Json* pattern = find_field(json, "pattern");
  if (!pattern) return wrong_field(json, "pattern", "{\"Regex\": ...} or {\"String\": ...}");
  if (pattern->is_string()) return Regex::compile(pattern->get<std::string>(), true);
  if (find_field(*pattern, "Regex")) {
    MAKAR_TRY(const std::string text, string_field(*pattern, "Regex"));
    return Regex::compile(text);
  }
  MAKAR_TRY(const std::string text, string_field(*pattern, "String"));
  return Regex::compile(text, true);
}

Result<Regex> Regex::compile(const std::string& pattern, bool literal) {
  if (pattern.size() > kMaxPatternBytes)
    return error_of(Error::Kind::kLimit, "pattern", "has {} bytes; the limit is {}", pattern.size(),
                    kMaxPatternBytes);
  std::string source = pattern;
  uint32_t options = PCRE2_UTF | PCRE2_NO_UTF_CHECK;
  if (literal) {
    options |= PCRE2_LITERAL;
  } else {
    MAKAR_TRY(source, translate_pattern(pattern));
    options |= PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  }
  int code = 0;
  size_t error_offset = 0;
  auto compiled = std::make_shared<Code>();
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options, &code,
                                 &error_offset, nullptr);
  if (!compiled->code)
    return error_at("pattern", "{} does not compile: {} (at byte {} of the pattern translated to PCRE2)",
                    quote(pattern), pcre_message(code), error_offset);
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // optional: the interpreter runs without it
  if (!literal) compiled->scanner = Scanner::kind_of(pattern);
  Regex regex;
  regex.code_ = std::move(compiled);
  regex.pattern_ = pattern;
  return regex;
}

namespace {

template <Scanner::Kind kKind>
void scan_all(std::string_view text, std::vector<Span>& matches) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const Scanner scanner(end);
  for (const char* p = begin; p < end;) {
    const char* const word = p;
    p = scanner.next<kKind>(p);
    matches.push_back({static_cast<uint32_t>(word - begin), static_cast<uint32_t>(p - begin)});
  }
}

}  // namespace

Status Regex::find_all(std::string_view text, std::vector<Span>& matches) const {
  switch (code_->scanner) {
    case Scanner::Kind::kGpt2:
      return scan_all<Scanner::Kind::kGpt2>(text, matches), Done{};
    case Scanner::Kind::kCl100k:
      return scan_all<Scanner::Kind::kCl100k>(text, matches), Done{};
    case Scanner::Kind::kQwen2:
      return scan_all<Scanner::Kind::kQwen2>(text, matches), Done{};
    case Scanner::Kind::kO200k:
      return scan_all<Scanner::Kind::kO200k>(text, matches), Done{};
    case Scanner::Kind::kNone:
      return match_all(text, matches);
  }
  return Done{};
}

Status Regex::match_all(std::string_view text, std::vector<Span>& matches) const {
  return each_match(text, 1, [&](const size_t* pair, uint32_t) {
    matches.push_back({static_cast<uint32_t>(pair[0]), static_cast<uint32_t>(pair[1])});
    return true;
  });
}

Status Regex::find_groups(std::string_view text, std::vector<std::vector<Span>>& matches,
                          size_t limit) const {
  uint32_t groups = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_CAPTURECOUNT, &groups);
  return each_match(text, groups + 1, [&](const size_t* pairs, uint32_t found) {
    std::vector<Span> spans(groups + 1);
    for (uint32_t g = 0; g < found; ++g)
      if (pairs[2 * g] != PCRE2_UNSET)
        spans[g] = {static_cast<uint32_t>(pairs[2 * g]), static_cast<uint32_t>(pairs[2 * g + 1])};
    matches.push_back(std::move(spans));
    return matches.size() < limit;
  });
}

Status Regex::each_match(std::string_view text, uint32_t groups,
                         const std::function<bool(const size_t*, uint32_t)>& f) const {
  const MatchData data(pcre2_match_data_create(groups, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), kMaxMatchSteps);
  pcre2_set_heap_limit(context.get(), kMaxHeapKib);
  JitStack stack;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (size_t at = 0; at <= text.size();) {
    int found =
        pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      stack.reset(pcre2_jit_stack_create(kInitialJitStackBytes, kMaxJitStackBytes, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      found =
          pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      return error_of(Error::Kind::kLimit, "pattern", "{} needs too many steps on this text ({}, at byte {})",
                      quote(pattern_), pcre_message(found), at);
    const size_t* pair = pcre2_get_ovector_pointer(data.get());
    const size_t begin = pair[0], end = pair[1];
    if (begin > end || end > text.size())
      return error_at("pattern", "{} has a match that ends before it starts", quote(pattern_));
    if (!f(pair, std::min(groups, static_cast<uint32_t>(found > 0 ? found : 1)))) break;
    at = end > begin ? end : end < text.size() ? end + utf8_size(text[end]) : end + 1;
  }
  return Done{};
}

}  // namespace makar
