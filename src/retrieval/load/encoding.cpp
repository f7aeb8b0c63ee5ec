#include "retrieval/load/encoding.h"

#include <algorithm>

#include "base/lower_ascii.h"
#include "base/nearest.h"
#include "base/utf8.h"

namespace makar {
namespace {

// 0x80 to 0x9F of Windows-1252; 0: not defined.
constexpr char32_t kWindowsControls[32] = {0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                           0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                           0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                           0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

std::string from_utf16(std::string_view bytes, bool little) {
  std::string out;
  const auto unit = [&](size_t at) -> char32_t {
    const auto a = static_cast<unsigned char>(bytes[at]), b = static_cast<unsigned char>(bytes[at + 1]);
    return little ? static_cast<char32_t>(b << 8 | a) : static_cast<char32_t>(a << 8 | b);
  };
  for (size_t at = 0; at + 1 < bytes.size(); at += 2) {
    char32_t code = unit(at);
    if (at == 0 && code == 0xFEFF) continue;
    if (code >= 0xD800 && code < 0xDC00 && at + 3 < bytes.size()) {
      const char32_t low = unit(at + 2);
      if (low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), at += 2;
    }
    append_utf8(out, code >= 0xD800 && code < 0xE000 ? kReplacement : code);
  }
  if (bytes.size() % 2) append_utf8(out, kReplacement);
  return out;
}

}  // namespace

const char* name(TextEncoding encoding) {
  switch (encoding) {
    case TextEncoding::kAuto:
      return "auto";
    case TextEncoding::kUtf8:
      return "utf-8";
    case TextEncoding::kLatin1:
      return "latin-1";
    case TextEncoding::kWindows1252:
      return "windows-1252";
    case TextEncoding::kUtf16Le:
      return "utf-16le";
    case TextEncoding::kUtf16Be:
      return "utf-16be";
  }
  return "";
}

Result<TextEncoding> parse_encoding(const std::string& text, const std::string& place) {
  static const std::vector<std::pair<std::string, TextEncoding>> kNames = {
      {"auto", TextEncoding::kAuto},
      {"utf-8", TextEncoding::kUtf8},
      {"utf8", TextEncoding::kUtf8},
      {"latin-1", TextEncoding::kLatin1},
      {"latin1", TextEncoding::kLatin1},
      {"iso-8859-1", TextEncoding::kLatin1},
      {"windows-1252", TextEncoding::kWindows1252},
      {"cp1252", TextEncoding::kWindows1252},
      {"utf-16le", TextEncoding::kUtf16Le},
      {"utf-16be", TextEncoding::kUtf16Be}};
  const std::string lower = lower_ascii(text);
  std::vector<std::string> known;
  for (const auto& [word, encoding] : kNames) {
    if (word == lower) return encoding;
    known.push_back(word);
  }
  return error_at(
      place, "unknown encoding '{}'{}; expected auto, utf-8, latin-1, windows-1252, utf-16le or utf-16be",
      text, did_you_mean(lower, known));
}

TextEncoding detect_encoding(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xFE")) return TextEncoding::kUtf16Le;
  if (bytes.starts_with("\xFE\xFF")) return TextEncoding::kUtf16Be;
  if (is_valid_utf8(bytes)) return TextEncoding::kUtf8;
  const bool windows = std::any_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 && byte < 0xA0;
  });
  return windows ? TextEncoding::kWindows1252 : TextEncoding::kLatin1;
}

std::string to_utf8(std::string_view bytes, TextEncoding encoding) {
  if (encoding == TextEncoding::kAuto) encoding = detect_encoding(bytes);
  if (encoding == TextEncoding::kUtf16Le) return from_utf16(bytes, true);
  if (encoding == TextEncoding::kUtf16Be) return from_utf16(bytes, false);
  if (encoding == TextEncoding::kUtf8) {
    if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
    return is_valid_utf8(bytes) ? std::string(bytes) : to_valid_utf8(bytes);
  }
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 8);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    char32_t code = byte;
    if (encoding == TextEncoding::kWindows1252 && byte >= 0x80 && byte < 0xA0)
      code = kWindowsControls[byte - 0x80] ? kWindowsControls[byte - 0x80] : kReplacement;
    append_utf8(out, code);
  }
  return out;
}

}  // namespace makar
