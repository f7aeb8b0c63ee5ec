#include "curate/representation.h"

#include <algorithm>

#include "base/file.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "lexical/corpus.h"

namespace makar {
namespace {

constexpr size_t kMaxGroups = 1000;

constexpr struct {
  const char *group, *words;
} kBuiltIn[] = {
    {"gender: women", "she her hers herself woman women girl girls mother daughter sister wife female lady"},
    {"gender: men", "he him his himself man men boy boys father son brother husband male gentleman"},
    {"gender: nonbinary", "nonbinary transgender trans genderqueer intersex"},
    {"age: young", "child children kid kids teenager teenagers youth"},
    {"age: old", "elderly senior seniors pensioner pensioners grandmother grandfather"},
    {"religion: christian", "christian christians christianity church catholic protestant"},
    {"religion: muslim", "muslim muslims islam islamic mosque"},
    {"religion: jewish", "jew jews jewish judaism synagogue"},
    {"religion: hindu", "hindu hindus hinduism"},
    {"religion: buddhist", "buddhist buddhists buddhism"},
    {"religion: none", "atheist atheists atheism agnostic"},
    {"origin: african", "african africans africa"},
    {"origin: american", "american americans america"},
    {"origin: asian", "asian asians asia chinese indian japanese korean"},
    {"origin: european", "european europeans europe british french german italian"},
    {"origin: latin american", "hispanic latino latina latinos mexican brazilian"},
    {"origin: middle eastern", "arab arabs arabic turkish persian iranian"},
    {"origin: indigenous", "indigenous aboriginal maori"},
    {"orientation: gay", "gay gays lesbian lesbians bisexual queer homosexual"},
    {"orientation: straight", "straight heterosexual"},
    {"disability", "disabled disability disabilities deaf blind wheelchair autistic"},
};

}  // namespace

void Representation::add(const std::string& group, const std::string& word) {
  auto at = std::find(groups_.begin(), groups_.end(), group);
  if (at == groups_.end()) at = groups_.insert(at, group);
  auto& word_groups = words_[word];
  const auto number = static_cast<size_t>(at - groups_.begin());
  if (std::find(word_groups.begin(), word_groups.end(), number) == word_groups.end())
    word_groups.push_back(number);
}

Representation Representation::built_in() {
  Representation out;
  WordSplitter splitter({});
  for (const auto& [group, words] : kBuiltIn)
    for (const std::string_view word : splitter.split(words)) out.add(group, std::string(word));
  return out;
}

Result<Representation> Representation::parse(std::string_view text, const std::string& place) {
  Representation out;
  WordSplitter splitter({"words", true});
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1, ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    const auto words = tab == std::string_view::npos ? std::vector<std::string_view>{}
                                                     : splitter.split(line.substr(tab + 1));
    if (tab == 0 || words.size() != 1)
      return error_at(fmt::format("{}:{}", place, number), "expected a group, a tab and one word, found {}",
                      quote(line));
    out.add(to_valid_utf8(std::string(line.substr(0, tab))), std::string(words[0]));
    if (out.groups_.size() > kMaxGroups)
      return error_at(fmt::format("{}:{}", place, number), "at most {} groups can be counted", kMaxGroups);
  }
  if (out.groups_.empty())
    return error_at(place, "has no groups; expected lines of a group, a tab and a word");
  return out;
}

Result<Representation> Representation::read(const std::string& path) {
  MAKAR_TRY(const std::string text, read_file(path));
  return parse(text, path);
}

std::vector<uint64_t> Representation::count(std::string_view text) const {
  std::vector<uint64_t> out(groups_.size(), 0);
  WordSplitter splitter({"words", true});
  for (const std::string_view word : splitter.split(text))
    if (const auto at = words_.find(std::string(word)); at != words_.end())
      for (const size_t group : at->second) ++out[group];
  return out;
}

}  // namespace makar
