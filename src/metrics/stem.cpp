#include "metrics/stem.h"

#include <libstemmer.h>

#include "base/nearest.h"

namespace makar {

constexpr size_t kMaxWordBytes = 1 << 20;

Result<Stemmer> Stemmer::open(const std::string& language, const std::string& place) {
  Stemmer out;
  sb_stemmer* stemmer = sb_stemmer_new(language.c_str(), "UTF_8");
  if (!stemmer) {
    std::vector<std::string> known;
    for (const char** name = sb_stemmer_list(); *name; ++name) known.emplace_back(*name);
    return error_at(place, "libstemmer has no stemmer '{}'{}", language, did_you_mean(language, known));
  }
  out.stemmer_ =
      std::shared_ptr<void>(stemmer, [](void* s) { sb_stemmer_delete(static_cast<sb_stemmer*>(s)); });
  return out;
}

std::string Stemmer::operator()(const std::string& word) const {
  auto* stemmer = static_cast<sb_stemmer*>(stemmer_.get());
  const sb_symbol* stem = sb_stemmer_stem(stemmer, reinterpret_cast<const sb_symbol*>(word.data()),
                                          static_cast<int>(std::min(word.size(), kMaxWordBytes)));
  if (!stem) throw std::bad_alloc();
  return {reinterpret_cast<const char*>(stem), static_cast<size_t>(sb_stemmer_length(stemmer))};
}

}  // namespace makar
