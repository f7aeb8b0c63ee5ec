#include "text/newer_code_points.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/lower_ascii.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace makar {
namespace {

constexpr CategoryMask kCased = detail::mask({Category::kLu, Category::kLl, Category::kLt});
constexpr CategoryMask kSeparator = detail::mask({Category::kZs, Category::kZl, Category::kZp});

struct PropertyName {
  const char* name;
  CategoryMask categories;
};
constexpr PropertyName kProperties[] = {
    {"l", kLetter},
    {"l&", kCased},
    {"m", kMark},
    {"n", kNumber},
    {"p", kPunctuation},
    {"s", kSymbol},
    {"z", kSeparator},
    // Without Other_Alphabetic and the like, which utf8proc does not have.
    {"alphabetic", kLetter | detail::mask({Category::kNl})},
    {"uppercase", detail::mask({Category::kLu})},
    {"lowercase", detail::mask({Category::kLl})},
};
// In the order of Category.
constexpr const char* kCategoryNames[] = {"cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd",
                                          "nl", "no", "pc", "pd", "ps", "pe", "pi", "pf", "po", "sm",
                                          "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "cs", "co"};

// 0 for names without additional code points. Cn is one of them: its set becomes smaller, not larger.
CategoryMask categories_of(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != ' ' && c != '-' && c != '_') plain += lower_ascii(c);
  for (const PropertyName& property : kProperties)
    if (plain == property.name) return property.categories;
  for (size_t i = 1; i < std::size(kCategoryNames); ++i)
    if (plain == kCategoryNames[i]) return CategoryMask{1} << i;
  return 0;
}

std::vector<char32_t> find_newer_code_points() {
  std::string assigned;
  for (char32_t code = 0x80; code <= 0x10FFFF; ++code) {
    const Category c = category(code);
    if (c != Category::kCn && c != Category::kCs && c != Category::kCo) append_utf8(assigned, code);
  }
  const auto unassigned = Regex::compile("\\p{Cn}");
  check(unassigned.ok(), "PCRE2 has general categories");
  std::vector<Span> matches;
  const Status matched = unassigned->match_all(assigned, matches);
  check(matched.ok(), "one character per match needs few steps");
  std::vector<char32_t> out;
  for (const Span& match : matches) out.push_back(decode_utf8(assigned, match.begin).code);
  return out;
}

const std::vector<char32_t>& newer_code_point_list() {
  static const std::vector<char32_t> list = find_newer_code_points();
  return list;
}

std::string class_members(CategoryMask categories) {
  std::string out;
  const std::vector<char32_t>& list = newer_code_point_list();
  for (size_t i = 0; i < list.size(); ++i) {
    if (!in(list[i], categories)) continue;
    const char32_t first = list[i];
    while (i + 1 < list.size() && list[i + 1] == list[i] + 1 && in(list[i + 1], categories)) ++i;
    out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(first));
    if (list[i] != first) out += fmt::format("-\\x{{{:x}}}", static_cast<uint32_t>(list[i]));
  }
  return out;
}

}  // namespace

std::string with_newer_code_points(std::string_view members) {
  CategoryMask categories = 0;
  for (size_t at = 0; (at = members.find("\\p{", at)) != members.npos; ++at) {
    const size_t end = members.find('}', at);
    if (end == members.npos) break;
    categories |= categories_of(members.substr(at + 3, end - at - 3));
  }
  std::string out(members);
  if (categories != 0) out += class_members(categories);
  return out;
}

const std::string& newer_code_points() {
  static const std::string members = class_members(~CategoryMask{0});
  return members;
}

}  // namespace makar
