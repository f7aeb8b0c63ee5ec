#include "augment/augment.h"

#include <cmath>

#include "augment/changes.h"
#include "base/nearest.h"
#include "data/line_reader.h"

namespace makar {

const std::vector<AugmentKind>& augment_kinds() {
  static const std::vector<AugmentKind> kKinds = {
      {"synonyms", "WordNet"},
      {"back-translation", "--translator and --back-translator"},
      {"insertion", ""},
      {"deletion", ""},
      {"swap", ""},
      {"shuffle", ""},
      {"paraphrase", "--paraphraser"},
      {"neighbors", "--vectors"},
      {"noise", ""},
      {"contextual", "--masked-model"},
      {"entities", ""},
      {"split-merge", ""},
      {"adversarial", "--classifier"},
  };
  return kKinds;
}

namespace {

const AugmentKind* find_kind(const std::string& name) {
  for (const AugmentKind& k : augment_kinds())
    if (name == k.name) return &k;
  return nullptr;
}

}  // namespace

Result<AugmentStep> parse_step(const std::string& text) {
  AugmentStep step;
  const size_t colon = text.find(':');
  step.kind = text.substr(0, colon);
  std::vector<std::string> known;
  for (const AugmentKind& k : augment_kinds()) known.emplace_back(k.name);
  if (!find_kind(step.kind))
    return error_at("--augment", "unknown kind '{}'{}; expected one of: {}", step.kind,
                    did_you_mean(step.kind, known), fmt::join(known, ", "));
  if (colon == std::string::npos) return step;
  const std::string number = text.substr(colon + 1);
  char* end = nullptr;
  step.rate = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(step.rate > 0 && step.rate <= 1))
    return error_at("--augment", "the rate in '{}' must be a number above 0 and up to 1", text);
  return step;
}

Status check(const AugmentStep& step, const AugmentResources& r) {
  const bool ready = step.kind == "synonyms"           ? r.synonyms != nullptr
                     : step.kind == "back-translation" ? r.back_translate != nullptr
                     : step.kind == "paraphrase"       ? r.paraphrase != nullptr
                     : step.kind == "neighbors"        ? r.neighbors != nullptr
                     : step.kind == "contextual"       ? r.masked != nullptr
                     : step.kind == "adversarial"      ? r.classifier != nullptr
                                                       : true;
  if (ready) return Done{};
  return error_of(Error::Kind::kNotFound, "--augment", "{} needs {}", step.kind, find_kind(step.kind)->needs);
}

Result<std::map<std::string, std::vector<std::string>>> read_entities(const std::string& path) {
  constexpr size_t kMaxNames = size_t{1} << 20;
  MAKAR_TRY(auto stream, ByteStream::open(path));
  LineReader lines(std::move(stream));
  std::map<std::string, std::vector<std::string>> out;
  size_t count = 0;
  for (Line line;;) {
    MAKAR_TRY(const bool found, lines.next(line));
    if (!found) break;
    if (line.text.empty()) continue;
    const size_t tab = line.text.find('\t');
    const std::string place = fmt::format("{}:{}", path, line.number);
    if (line.too_long || tab == 0 || tab == std::string::npos || tab + 1 == line.text.size())
      return error_at(place, "expected KIND, a tab and a name");
    if (++count > kMaxNames) return error_of(Error::Kind::kLimit, place, "more than {} names", kMaxNames);
    out[line.text.substr(0, tab)].push_back(line.text.substr(tab + 1));
  }
  if (out.empty()) return error_at(path, "has no names; expected KIND, a tab and a name per line");
  return out;
}

Result<std::string> augment_text(const std::string& text, const std::string& label, const AugmentStep& step,
                                 const AugmentResources& r, TextDraws& d) {
  MAKAR_RETURN_IF_ERROR(check(step, r));
  if (text.size() > kMaxAugmentedBytes) return text;
  const std::string& k = step.kind;
  if (k == "synonyms") return replace_synonyms(text, step.rate, r, d);
  if (k == "insertion") return insert_words(text, step.rate, r, d);
  if (k == "deletion") return delete_words(text, step.rate, d);
  if (k == "swap") return swap_words(text, step.rate, d);
  if (k == "shuffle") return shuffle_sentences(text, d);
  if (k == "neighbors") return replace_neighbors(text, step.rate, r, d);
  if (k == "noise") return add_noise(text, step.rate, d);
  if (k == "contextual") return replace_in_context(text, step.rate, r, d);
  if (k == "entities") return replace_entities(text, step.rate, r, d);
  if (k == "split-merge") return split_or_merge(text, d);
  if (k == "adversarial") return fool_classifier(text, label, step.rate, r, d);
  const auto seed = static_cast<uint64_t>(d.uniform() * 0x1p32);
  return k == "paraphrase" ? r.paraphrase(text, seed) : r.back_translate(text, seed);
}

}  // namespace makar
