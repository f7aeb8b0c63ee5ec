// makar tokenizer compare: where two tokenizers split a text differently.
#include <algorithm>
#include <cstdio>

#include "cli/run.h"
#include "cli/text_io.h"
#include "text/tokenizer.h"

namespace makar {
namespace {

// A span of text that the two tokenizers split differently.
struct Difference {
  Span bytes;
  std::vector<std::string> first, second;
};

std::vector<std::string> pieces(const Tokenizer& tokenizer, const Encoding& e, size_t begin, size_t end) {
  std::vector<std::string> out;
  for (size_t i = begin; i < end; ++i) out.push_back(tokenizer.token(e.ids[i]).value_or("?"));
  return out;
}

// Walks both encodings. Between positions where both have a token boundary, the tokens must be the same.
std::vector<Difference> differences(const Tokenizer& a, const Encoding& x, const Tokenizer& b,
                                    const Encoding& y) {
  std::vector<Difference> out;
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const size_t i0 = i, j0 = j;
    do {
      const uint32_t end_x = i > i0 ? x.offsets[i - 1].end : 0, end_y = j > j0 ? y.offsets[j - 1].end : 0;
      if (i < x.size() && (j >= y.size() || end_x <= end_y))
        ++i;
      else if (j < y.size())
        ++j;
    } while ((i < x.size() || j < y.size()) &&
             (i == i0 || j == j0 || x.offsets[i - 1].end != y.offsets[j - 1].end));
    if (i - i0 == 1 && j - j0 == 1) continue;
    const auto spans_equal = [&] {
      if (i - i0 != j - j0) return false;
      for (size_t k = 0; k < i - i0; ++k)
        if (x.offsets[i0 + k].end != y.offsets[j0 + k].end) return false;
      return true;
    };
    if (spans_equal()) continue;
    Difference d;
    d.bytes.begin = std::min(i0 < x.size() ? x.offsets[i0].begin : UINT32_MAX,
                             j0 < y.size() ? y.offsets[j0].begin : UINT32_MAX);
    d.bytes.end = std::max(i > i0 ? x.offsets[i - 1].end : 0, j > j0 ? y.offsets[j - 1].end : 0);
    d.first = pieces(a, x, i0, i);
    d.second = pieces(b, y, j0, j);
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace

int run_tokenizer_compare(const std::vector<std::string>& arguments) {
  std::string a_path, b_path;
  std::vector<std::string> files;
  bool json = false;
  int64_t show = 20;
  Options options("tokenizer compare", "Show where two tokenizers differ on a text.",
                  "makar tokenizer compare a/tokenizer.json b/tokenizer.json book.txt");
  options.group("Input");
  options.positional("A", &a_path, "the first tokenizer");
  options.positional("B", &b_path, "the second tokenizer");
  options.positional("FILES...", &files, "text files; standard input if there is none").required = false;
  options.group("Output");
  options.add("--show", &show, "number of differences to print", "N");
  options.add("--json", &json, "print one JSON object");
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  const auto a = Tokenizer::load(a_path), b = Tokenizer::load(b_path);
  if (!a.ok()) return report(a.error());
  if (!b.ok()) return report(b.error());
  const auto text = read_whole(files);
  if (!text.ok()) return report(text.error());
  const auto x = a->encode(*text), y = b->encode(*text);
  if (!x.ok()) return report(x.error());
  if (!y.ok()) return report(y.error());
  const auto list = differences(*a, *x, *b, *y);
  Json out = {{"bytes", text->size()},
              {"tokens", {x->size(), y->size()}},
              {"same_ids", x->ids == y->ids},
              {"differences", list.size()}};
  if (json) {
    out["examples"] = Json::array();
    for (size_t i = 0; i < list.size() && static_cast<int64_t>(i) < show; ++i)
      out["examples"].push_back({{"bytes", {list[i].bytes.begin, list[i].bytes.end}},
                                 {"first", list[i].first},
                                 {"second", list[i].second}});
    return print_out(out.dump() + "\n") ? 0 : 1;
  }
  fmt::print("{} bytes: {} tokens and {} tokens, {} spans split differently, ids {}\n", text->size(),
             x->size(), y->size(), list.size(), x->ids == y->ids ? "equal" : "not equal");
  for (size_t i = 0; i < list.size() && static_cast<int64_t>(i) < show; ++i)
    fmt::print("  bytes {}..{}\n    A {}\n    B {}\n", list[i].bytes.begin, list[i].bytes.end,
               fmt::join(list[i].first, " | "), fmt::join(list[i].second, " | "));
  return 0;
}

}  // namespace makar
