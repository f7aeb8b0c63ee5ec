// Any bytes as a file of word vectors: finite numbers that can be written, or a bounded error.
#include <cmath>

#include "lexical/vector_files.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(lexical_vectors) {
  const auto stream = ByteStream::from_memory({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!stream.ok()) return 0;
  const auto vectors = read_vectors(**stream);
  if (!vectors.ok()) {
    check(vectors.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  for (size_t i = 0; i < vectors->words.size(); ++i)
    for (size_t j = 0; j < vectors->width; ++j)
      check(std::isfinite(vectors->rows.row(i)[j]), "a finite number");
  std::string written;
  check(write_vectors(*vectors, VectorFormat::kBinary,
                      [&](std::string_view t) -> Status { return written += t, Done{}; })
            .ok(),
        "vectors can be written");
  return 0;
}
