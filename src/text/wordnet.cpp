#include "text/wordnet.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

namespace makar {
namespace {

constexpr const char* kSuffixes[] = {"noun", "verb", "adj", "adv"};

struct Ending {
  std::string_view from, to;
};
// WordNet's rules of detachment, for nouns, verbs and adjectives.
constexpr Ending kNoun[] = {{"s", ""},      {"ses", "s"},   {"ves", "f"},   {"xes", "x"}, {"zes", "z"},
                            {"ches", "ch"}, {"shes", "sh"}, {"men", "man"}, {"ies", "y"}};
constexpr Ending kVerb[] = {{"s", ""},   {"ies", "y"}, {"es", "e"},  {"es", ""},
                            {"ed", "e"}, {"ed", ""},   {"ing", "e"}, {"ing", ""}};
constexpr Ending kAdjective[] = {{"er", ""}, {"est", ""}, {"er", "e"}, {"est", "e"}};
constexpr std::array<std::pair<const Ending*, size_t>, 4> kEndings = {{{kNoun, std::size(kNoun)},
                                                                       {kVerb, std::size(kVerb)},
                                                                       {kAdjective, std::size(kAdjective)},
                                                                       {nullptr, 0}}};

// Takes the next word off the front of a line; empty at its end.
std::string_view next_field(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view field = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return field;
}

size_t number_field(std::string_view& line, int base = 10) {
  const std::string_view field = next_field(line);
  size_t value = 0;
  const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), value, base);
  return status == std::errc() && end == field.data() + field.size() ? value : 0;
}

std::string_view line_at(std::string_view text, size_t at) {
  return text.substr(at, std::min(text.find('\n', at), text.size()) - at);
}

// The last line of a sorted file whose first word is `key`; empty if there is none.
std::string_view find_line(std::string_view text, std::string_view key) {
  size_t low = 0, high = text.size();  // the line begins in [low, high)
  std::string_view found;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const size_t before = middle == 0 ? std::string_view::npos : text.rfind('\n', middle - 1);
    const size_t begin = std::max(low, before == std::string_view::npos ? 0 : before + 1);
    std::string_view line = line_at(text, begin);
    const std::string_view first = line.substr(0, std::min(line.find(' '), line.size()));
    if (first <= key) {
      if (first == key) found = line;
      low = begin + line.size() + 1;
    } else {
      high = begin;
    }
  }
  return found;
}

std::vector<std::string> detach(const std::vector<std::string>& forms, size_t part) {
  std::vector<std::string> out;
  for (const std::string& form : forms)
    for (size_t e = 0; e < kEndings[part].second; ++e) {
      const Ending& ending = kEndings[part].first[e];
      if (form.ends_with(ending.from))
        out.push_back(form.substr(0, form.size() - ending.from.size()).append(ending.to));
    }
  return out;
}

// The index lines of the forms that have an entry, without duplicates.
std::vector<std::string_view> entries_of(const WordNetFiles& files, const std::vector<std::string>& forms) {
  std::vector<std::string_view> out;
  for (const std::string& form : forms)
    if (const std::string_view line = find_line(files.index, form);
        !line.empty() &&
        std::none_of(out.begin(), out.end(), [&](auto l) { return l.data() == line.data(); }))
      out.push_back(line);
  return out;
}

std::vector<std::string_view> entries_of(const WordNetFiles& files, const std::string& word, size_t part) {
  std::vector<std::string> forms = {word};
  if (std::string_view line = find_line(files.exceptions, word); !line.empty()) {
    next_field(line);
    for (std::string_view form; !(form = next_field(line)).empty();) forms.emplace_back(form);
    return entries_of(files, forms);
  }
  std::vector<std::string> shorter = detach(forms, part);
  forms.insert(forms.end(), shorter.begin(), shorter.end());
  std::vector<std::string_view> out = entries_of(files, forms);
  while (out.empty() && !shorter.empty()) out = entries_of(files, shorter = detach(shorter, part));
  return out;
}

// Calls use(word) for the words of the synonym set at this offset of the data file.
template <class Use>
void each_word(std::string_view data, size_t offset, const Use& use) {
  if (offset >= data.size() || (offset > 0 && data[offset - 1] != '\n')) return;
  std::string_view line = line_at(data, offset);
  next_field(line), next_field(line), next_field(line);  // offset, file of the lexicographer, kind
  for (size_t words = number_field(line, 16); words > 0 && !line.empty(); --words) {
    std::string_view word = next_field(line);
    next_field(line);
    word = word.substr(0, word.ends_with(')') ? word.find('(') : word.size());  // "afraid(p)"
    if (!word.empty()) use(word);
  }
}

}  // namespace

Result<std::shared_ptr<const WordNet>> WordNet::open(const std::string& folder) {
  std::shared_ptr<WordNet> out(new WordNet);
  const auto map = [&](const std::string& name) -> Result<std::string_view> {
    auto file = MappedFile::open(folder + "/" + name);
    if (!file.ok())
      return error_of(Error::Kind::kNotFound, folder + "/" + name,
                      "no WordNet database; install Debian's package wordnet-base, or pass its folder");
    out->mapped_files_.push_back(*file);
    const auto bytes = (*file)->bytes();
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (size_t p = 0; p < out->parts_.size(); ++p) {
    MAKAR_TRY(out->parts_[p].index, map(std::string("index.") + kSuffixes[p]));
    MAKAR_TRY(out->parts_[p].data, map(std::string("data.") + kSuffixes[p]));
    MAKAR_TRY(out->parts_[p].exceptions, map(std::string(kSuffixes[p]) + ".exc"));
  }
  return std::shared_ptr<const WordNet>(std::move(out));
}

std::vector<std::string> WordNet::synonyms(const std::string& word) const {
  std::vector<std::string> out;
  std::unordered_set<std::string> seen;
  if (word.empty() || word.size() > kMaxWordBytes) return out;
  for (size_t p = 0; p < parts_.size(); ++p)
    for (std::string_view entry : entries_of(parts_[p], word, p)) {
      next_field(entry), next_field(entry);  // lemma, part of speech
      const size_t sets = number_field(entry);
      for (size_t pointers = number_field(entry); pointers > 0 && !entry.empty(); --pointers)
        next_field(entry);
      next_field(entry), next_field(entry);  // senses, senses with a known frequency
      for (size_t s = 0; s < sets && !entry.empty(); ++s)
        each_word(parts_[p].data, number_field(entry), [&](std::string_view synonym) {
          if (synonym.find('_') == std::string_view::npos && seen.emplace(synonym).second)
            out.emplace_back(synonym);
        });
    }
  return out;
}

}  // namespace makar
