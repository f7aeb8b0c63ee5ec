#include "data/train_tokenizer.h"

#include <unistd.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/nearest.h"
#include "data/record_reader.h"
#include "data/schema.h"
#include "text/train/train.h"

namespace makar {
namespace {

// Writes the texts of all records to one plain file, which the trainer streams.
Status write_texts(const std::vector<DataPath>& paths, const std::string& file) {
  MAKAR_TRY(auto reader, RecordReader::open(paths));
  MAKAR_TRY(auto out, FileWriter::open(file));
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (!found) break;
    bool has_text = false;
    const auto add = [&](const std::string& text) -> Status {
      has_text = true;
      return out.write(text);
    };
    if (const Json* text = text_field(record.value); text && text->is_string()) {
      MAKAR_RETURN_IF_ERROR(add(text->get_ref<const std::string&>()));
    } else {
      for (const auto& item : record.value.items())
        if (item.value().is_string())
          MAKAR_RETURN_IF_ERROR(add(item.value().get_ref<const std::string&>() + "\n"));
    }
    if (has_text && format_of(record.file).value_or(RecordFormat::kText) != RecordFormat::kText)
      MAKAR_RETURN_IF_ERROR(out.write(std::string_view("\n")));
  }
  return out.commit();
}

}  // namespace

Result<Json> train_tokenizer_on(const std::vector<DataPath>& paths, const NewTokenizer& new_tokenizer,
                                ThreadPool& pool) {
  using Kind = TrainSettings::Model;
  struct Row {
    const char* name;
    Kind kind;
    const char* pipeline;
  };
  constexpr Row kTokenizers[] = {{"char", Kind::kCharacter, "none"},
                                 {"bpe", Kind::kBpe, "byte-level"},
                                 {"wordpiece", Kind::kWordPiece, "bert"},
                                 {"unigram", Kind::kUnigram, "metaspace"}};
  TrainSettings s;
  std::vector<std::string> known;
  const Row* row = nullptr;
  for (const Row& r : kTokenizers) {
    known.emplace_back(r.name);
    if (new_tokenizer.kind == r.name) row = &r;
  }
  if (!row)
    return error_at("tokenizer", "unknown tokenizer '{}'{}; expected a file, or one of: {}",
                    new_tokenizer.kind, did_you_mean(new_tokenizer.kind, known), fmt::join(known, ", "));
  s.model = row->kind;
  s.special_tokens = new_tokenizer.special;
  MAKAR_TRY(s.pipeline, TrainPipeline::named(row->pipeline, s.special_tokens));
  s.vocab_size = static_cast<size_t>(new_tokenizer.vocab_size);
  MAKAR_RETURN_IF_ERROR(make_folder(new_tokenizer.folder));
  const std::string file = new_tokenizer.folder + "/texts.txt";
  MAKAR_RETURN_IF_ERROR(write_texts(paths, file));
  auto report = [&]() -> Result<TrainReport> {
    MAKAR_TRY(auto corpus, Corpus::open({{file}, false, "text", 1.0, 0}));
    return train_tokenizer(corpus, s, pool);
  }();
  ::unlink(file.c_str());
  if (!report.ok()) return report.error();
  return std::move(report->tokenizer);
}

}  // namespace makar
