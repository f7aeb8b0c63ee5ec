#include "cli/classify_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/progress.h"
#include "base/quote.h"
#include "cli/classify_report.h"
#include "cli/classify_thresholds.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "data/datasets.h"
#include "data/schema.h"

namespace makar {
namespace {

constexpr size_t kBatchTexts = 64;

std::string csv_cell(const std::string& text) {
  return text.find_first_of(",\"\r\n") == std::string::npos ? text : double_quoted(text);
}

std::string csv_row(const std::vector<std::string>& cells) {
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i) out += (i > 0 ? "," : "") + csv_cell(cells[i]);
  return out + "\n";
}

std::string names_of(const std::vector<size_t>& chosen, const ClassLabels& labels) {
  std::string out;
  for (const size_t i : chosen) out += (out.empty() ? "" : ";") + labels.names[i];
  return out;
}

// CSV rows of the results, with a column text2 if the first record has two texts.
class ResultTable {
 public:
  // `truth`: the rows have a column with the reference label.
  ResultTable(const ClassLabels& labels, bool truth) : labels_(labels), truth_(truth) {}

  std::string row(const Json& record, const ClassAnswer& answer, const std::vector<size_t>& chosen,
                  const std::string& truth) {
    const auto pair = text_pair_fields(record);
    const Json* text = pair.first ? pair.first : text_field(record);
    std::string out;
    if (!begun_) {
      begun_ = true, two_texts_ = pair.second != nullptr;
      std::vector<std::string> head = {"text"};
      if (two_texts_) head.emplace_back("text2");
      if (truth_) head.emplace_back("truth");
      if (!answer.scores.empty()) head.emplace_back("label");
      head.emplace_back("score");
      for (size_t i = 0; i < answer.scores.size(); ++i) head.push_back(labels_.names[i]);
      out = csv_row(head);
    }
    std::vector<std::string> cells = {text && text->is_string() ? text->get<std::string>() : ""};
    if (two_texts_) cells.push_back(pair.second ? pair.second->get<std::string>() : "");
    if (truth_) cells.push_back(truth);
    if (answer.scores.empty()) {
      cells.push_back(answer.json["score"].dump());
    } else {
      cells.push_back(names_of(chosen, labels_));
      cells.push_back(chosen.empty() ? "" : fmt::format("{}", answer.scores[chosen[0]]));
      for (const double score : answer.scores) cells.push_back(fmt::format("{}", score));
    }
    return out + csv_row(cells);
  }

 private:
  const ClassLabels& labels_;
  bool truth_, begun_ = false, two_texts_ = false;
};

bool has_csv(const ClassAnswer& answer) { return !answer.scores.empty() || answer.json.contains("score"); }

Error needs_labels(const char* flag) {
  return error_of(Error::Kind::kUnsupported, flag, "needs a model that classifies whole texts");
}

Json answer_json(const ClassLabels& labels, const ClassAnswer& answer, const std::vector<size_t>& chosen,
                 bool all) {
  if (answer.scores.empty()) return answer.json;
  Json out = Json::object();
  if (labels.multi_label) {
    out["labels"] = Json::array();
    for (const size_t i : chosen) out["labels"].push_back(labels.names[i]);
  } else {
    out["label"] = chosen.empty() ? Json() : Json(labels.names[chosen[0]]);
    out["score"] =
        answer.scores[chosen.empty()
                          ? static_cast<size_t>(std::max_element(answer.scores.begin(), answer.scores.end()) -
                                                answer.scores.begin())
                          : chosen[0]];
  }
  if (all || labels.multi_label)
    for (size_t i = 0; i < labels.names.size(); ++i) out["scores"][labels.names[i]] = answer.scores[i];
  return out;
}

// The name of the reference label. A number that is not itself a label is an index (GLUE).
std::string true_label(const Json& value, const ClassLabels& labels) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (std::find(labels.names.begin(), labels.names.end(), text) != labels.names.end()) return text;
  size_t at = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), at);
  if (code == std::errc() && end == text.data() + text.size() && at < labels.names.size())
    return labels.names[at];
  return text;
}

int evaluate(const ClassifyOutput& o, const ClassLabels& labels, const LabelThresholds& thresholds,
             const ClassifyRecords& classify) {
  const auto spec = parse_dataset(o.eval);
  if (!spec.ok()) return report(spec.error());
  auto reader = RecordReader::open({spec->data()});
  if (!reader.ok()) return report(reader.error());
  std::vector<DataRecord> records;
  for (DataRecord record;;) {
    const auto found = reader->next(record);
    if (!found.ok()) return report(found.error());
    if (!*found) break;
    const Json* label = label_field(record.value);
    const bool pair = text_pair_fields(record.value).first != nullptr;
    const bool unlabelled = !labels.names.empty() && is_unlabelled_pair(record.value);
    if (!label || label->is_structured() || (!pair && !text_field(record.value)))
      reader->bad().add_once(record.place(), unexpected_schema_message(record.value, {Schema::kTextLabel}));
    else if (unlabelled)
      reader->bad().add_once(record.place(), "the annotators did not agree on a label");
    else
      records.push_back(std::move(record));
  }
  ClassifiedSet set{labels, {}, {}, {}, {}, {}};
  ResultTable table(labels, true);
  std::string rows;
  {
    Progress progress(o.json);
    for (size_t at = 0; at < records.size(); at += kBatchTexts) {
      progress.show("texts", at, records.size());
      std::vector<Json> batch;
      for (size_t i = at; i < std::min(records.size(), at + kBatchTexts); ++i)
        batch.push_back(records[i].value);
      const auto answers = classify(batch);
      for (size_t i = 0; i < answers.size(); ++i) {
        if (!answers[i].ok()) {
          reader->bad().add(records[at + i].place(), answers[i].error().message);
          continue;
        }
        if (!has_csv(*answers[i])) return report(needs_labels("--eval"));
        const auto chosen = thresholds.choose(answers[i]->scores);
        const std::string truth = true_label(*label_field(batch[i]), labels);
        if (!o.csv.empty()) rows += table.row(batch[i], *answers[i], chosen, truth);
        if (const Status added = set.add(*answers[i], names_of(chosen, labels), truth); !added.ok())
          reader->bad().add(records[at + i].place(), added.error().message);
      }
    }
    progress.show("texts", records.size(), records.size());
  }
  for (const std::string& bad : reader->bad().reported) warn(bad);
  if (reader->bad().count > reader->bad().reported.size())
    warn(fmt::format("{}: {} records could not be used", spec->path, reader->bad().count));
  if (set.truth.empty() && set.numbers.empty()) return report(error_at(spec->path, "has no labelled texts"));
  if (!o.csv.empty())
    if (const Status written = write_file(o.csv, rows); !written.ok()) return report(written.error());
  const auto scores = set.measure();
  if (!scores.ok()) return report(scores.error());
  return print_out(o.json ? dump(*scores) + "\n" : classification_text(*scores)) ? 0 : 1;
}

// Writes the answers to lines of text as JSON lines or CSV, to standard output or a file.
class AnswerLines {
 public:
  AnswerLines(const ClassifyOutput& options, const ClassLabels& labels, const LabelThresholds& thresholds,
              const ClassifyRecords& classify)
      : o_(options), labels_(labels), thresholds_(thresholds), classify_(classify), table_(labels, false) {}

  Status open() {
    if (o_.csv.empty() || o_.csv == "-") return Done{};
    MAKAR_TRY(FileWriter file, FileWriter::open(o_.csv));
    file_.emplace(std::move(file));
    return Done{};
  }

  // Classifies and writes a batch of lines. `first`: the number of the first line. False to stop: the output
  // failed, or the answers do not fit CSV.
  bool write(const std::vector<std::string_view>& lines, size_t first) {
    std::vector<Result<Json>> parsed;
    std::vector<Json> records;
    for (const std::string_view line : lines) {
      parsed.push_back(parse(line));
      if (parsed.back().ok()) records.push_back(*parsed.back());
    }
    const auto answers = classify_(records);
    std::string out;
    size_t next = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!parsed[i].ok()) {
        out += failure_line(parsed[i].error(), first + i);
        continue;
      }
      const size_t at = next++;
      if (!answers[at].ok()) {
        out += failure_line(answers[at].error(), first + i);
        continue;
      }
      const auto chosen = thresholds_.choose(answers[at]->scores);
      if (o_.csv.empty())
        out += dump(answer_json(labels_, *answers[at], chosen, o_.scores)) + "\n";
      else if (!has_csv(*answers[at]))
        return has_csv_ = false;
      else
        out += table_.row(records[at], *answers[at], chosen, "");
    }
    if (!file_) return printed_ = print_out(out);
    written_ = file_->write(out);
    return written_.ok();
  }

  // Returns the exit code. `read`: the status of reading the lines.
  int finish(const Status& read) {
    if (!has_csv_) return report(needs_labels("--csv"));
    if (!printed_) return 1;
    if (!read.ok()) return report(read.error());
    if (written_.ok() && file_) written_ = file_->commit();
    return written_.ok() ? 0 : report(written_.error());
  }

 private:
  Result<Json> parse(std::string_view line) const {
    if (!o_.jsonl) return Json{{"text", line}};
    MAKAR_TRY(Json record, parse_json(std::string(line), "", {size_t{16} << 20, 64}));
    if (!record.is_object()) return error_at("", "a record must be an object");
    return record;
  }

  // The output line of a failed record; with CSV a warning instead.
  std::string failure_line(const Error& error, size_t line) const {
    if (o_.csv.empty()) return error_line(error, line);
    warn(fmt::format("line {}: {}", line, error.message));
    return "";
  }

  const ClassifyOutput& o_;
  const ClassLabels& labels_;
  const LabelThresholds& thresholds_;
  const ClassifyRecords& classify_;
  ResultTable table_;
  std::optional<FileWriter> file_;
  Status written_ = Done{};
  bool has_csv_ = true, printed_ = true;
};

}  // namespace

void ClassifyOutput::declare(Options& options, const char* jsonl_help) {
  options.group("Text");
  options.add("--text", &text, "the text; lines of standard input if there is none", "TEXT");
  options.add("-f --file", &files, "read one text per line from a file", "FILE");
  options.add("--jsonl", &jsonl, jsonl_help);
  options.add("--eval", &eval,
              "measure on labelled records (as for classify train): accuracy, scores per label, the "
              "confusion matrix, the best threshold",
              "FILE");
  options.group("Output");
  options.add(
      "--threshold", &thresholds,
      "return no label below this probability; LABEL=X: return that label if its probability is at least X, "
      "else the best of the others; may be repeated",
      "X");
  options.add("--scores", &scores,
              "print the score of every label: its probability, for svm its margin; for a tagger, the "
              "probabilities of each word's tags (forward-backward)");
  options.add("--csv", &csv, "write CSV to this file; - prints CSV instead of JSON", "FILE");
  options.add("--json", &json, "with --eval: print one JSON object");
}

int ClassifyOutput::run(const ClassLabels& labels, const ClassifyRecords& classify) const {
  if (labels.names.empty() && !thresholds.empty()) return report(needs_labels("--threshold")), 2;
  const auto label_thresholds = LabelThresholds::parse(thresholds, labels);
  if (!label_thresholds.ok()) return report(label_thresholds.error()), 2;
  if (!eval.empty()) {
    if (!text.empty() || !files.empty() || jsonl)
      return report(error_at("--eval", "takes its texts from the file; remove --text, --file and --jsonl")),
             2;
    if (csv == "-") return report(error_at("--csv", "cannot be - with --eval; give the name of a file")), 2;
    return evaluate(*this, labels, *label_thresholds, classify);
  }
  AnswerLines answers(*this, labels, *label_thresholds, classify);
  if (const Status opened = answers.open(); !opened.ok()) return report(opened.error());
  Status read = Done{};
  if (!text.empty())
    answers.write({text}, 1);
  else
    read = each_line_batch(files, [&](const std::vector<std::string_view>& lines, size_t first) {
      for (size_t i = 0; i < lines.size(); i += kBatchTexts)
        if (!answers.write({lines.begin() + static_cast<int64_t>(i),
                            lines.begin() + static_cast<int64_t>(std::min(lines.size(), i + kBatchTexts))},
                           first + i))
          return false;
      return true;
    });
  return answers.finish(read);
}

}  // namespace makar
