// Any bytes as a text, Markdown, HTML, table, JSON lines or Cranfield file (selected by the first byte, the
// encoding by the second): documents of valid UTF-8 with a name and text, then chunks within them.
#include "base/utf8.h"
#include "retrieval/analyzer.h"
#include "retrieval/chunker.h"
#include "retrieval/load/loader.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(retrieval_load) {
  if (size < 3) return 0;
  constexpr SourceFormat kFormats[] = {SourceFormat::kText,     SourceFormat::kMarkdown, SourceFormat::kHtml,
                                       SourceFormat::kCsv,      SourceFormat::kTsv,      SourceFormat::kJsonl,
                                       SourceFormat::kCranfield};
  SourceOptions options;
  options.encoding = static_cast<TextEncoding>(data[1] % 6);
  options.header = data[1] & 64;
  static const auto analyzer = Analyzer::open({});
  BadRecords bad;
  const Status loaded = load_bytes(
      {reinterpret_cast<const char*>(data) + 3, size - 3}, kFormats[data[0] % 7], "fuzz", options,
      [&](SourceDocument d) -> Status {
        check(!d.name.empty() && !d.text.empty(), "a document has a name and text");
        check(is_valid_utf8(d.text) && is_valid_utf8(d.title), "text and title are valid UTF-8");
        (void)d.metadata.dump();
        ChunkOptions chunk;
        chunk.kind = data[2] % 2 ? ChunkKind::kHeadings : ChunkKind::kCharacters;
        chunk.size = 1 + data[2], chunk.overlap = data[2] / 2;
        const auto chunks = split_chunks(d.text, chunk);
        check(chunks.ok(), "any text has chunks");
        for (const TextChunk& c : *chunks) {
          check(c.begin < c.end && c.end <= d.text.size(), "a chunk is part of its text");
          check(is_valid_utf8(std::string_view(d.text).substr(c.begin, c.end - c.begin)),
                "a chunk has whole characters");
        }
        for (const std::string& term : (*analyzer)(d.text)) check(!term.empty(), "a term is not empty");
        return Done{};
      },
      bad);
  if (!loaded.ok()) check(loaded.error().text().size() < 4000, "a bounded message");
  for (const std::string& line : bad.reported) check(line.size() < 4000, "a bounded message");
  return 0;
}
