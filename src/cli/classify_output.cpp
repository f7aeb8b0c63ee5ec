#include "cli/classify_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/progress.h"
#include "base/quote.h"
#include "cli/classify_report.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"
#include "data/datasets.h"
#include "data/schema.h"

namespace makar {
namespace {

constexpr size_t kTogether = 64;

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

// A table of the results. The column text2 is there if the first record has two texts.
class ResultTable {
 public:
  ResultTable(const ClassLabels& labels, bool truth) : labels_(labels), truth_(truth) {}

  std::string row(const Json& record, const ClassAnswer& answer, const std::vector<size_t>& chosen,
                  const std::string& truth) {
    const auto pair = text_pair_fields(record);
    const Json* text = pair.first ? pair.first : text_field(record);
    std::string out;
    if (!begun_) {
      begun_ = true, second_ = pair.second != nullptr;
      std::vector<std::string> head = {"text"};
      if (second_) head.emplace_back("text2");
      if (truth_) head.emplace_back("truth");
      if (!answer.scores.empty()) head.emplace_back("label");
      head.emplace_back("score");
      for (size_t i = 0; i < answer.scores.size(); ++i) head.push_back(labels_.names[i]);
      out = csv_row(head);
    }
    std::vector<std::string> cells = {text && text->is_string() ? text->get<std::string>() : ""};
    if (second_) cells.push_back(pair.second ? pair.second->get<std::string>() : "");
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
  bool truth_, begun_ = false, second_ = false;
};

bool has_csv(const ClassAnswer& answer) { return !answer.scores.empty() || answer.json.contains("score"); }

Error needs_labels(const char* flag) {
  return error_of(Error::Kind::kUnsupported, flag, "needs a classifier of whole texts");
}

Json answer_json(const ClassLabels& labels, const ClassAnswer& answer, const std::vector<size_t>& chosen,
                 bool all) {
  if (answer.scores.empty()) return answer.json;
  Json out = Json::object();
  if (labels.several) {
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
  if (all || labels.several)
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
    const bool open = !labels.names.empty() && is_open_pair(record.value);
    if (!label || label->is_structured() || (!pair && !text_field(record.value)))
      reader->bad().add_once(record.place(), unknown_fields(record.value, {Schema::kTextLabel}));
    else if (open)
      reader->bad().add_once(record.place(), "the annotators did not agree on a label");
    else
      records.push_back(std::move(record));
  }
  ClassifiedSet set{labels, {}, {}, {}, {}, {}};
  ResultTable table(labels, true);
  std::string rows;
  {
    Progress progress(o.json);
    for (size_t at = 0; at < records.size(); at += kTogether) {
      progress.show("texts", at, records.size());
      std::vector<Json> batch;
      for (size_t i = at; i < std::min(records.size(), at + kTogether); ++i)
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
  if (set.truth.empty() && set.numbers.empty())
    return report(error_at(spec->path, "there are no labelled texts"));
  if (!o.csv.empty())
    if (const Status written = write_file(o.csv, rows); !written.ok()) return report(written.error());
  const auto scores = set.measure();
  if (!scores.ok()) return report(scores.error());
  return print_out(o.json ? scores->dump() + "\n" : classification_text(*scores)) ? 0 : 1;
}

}  // namespace

Result<LabelThresholds> LabelThresholds::parse(const std::vector<std::string>& texts,
                                               const ClassLabels& labels) {
  LabelThresholds out;
  out.several_ = labels.several;
  out.general_ = labels.several ? 0.5 : -std::numeric_limits<double>::infinity();
  out.own_.assign(labels.names.size(), std::nan(""));
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    const std::string number = equals == std::string::npos ? text : text.substr(equals + 1);
    double value = 0;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (code != std::errc() || end != number.data() + number.size() || !std::isfinite(value))
      return error_at("--threshold", "expected a number, or LABEL=NUMBER, got {}", quote(text));
    if (equals == std::string::npos) {
      out.general_ = value;
      continue;
    }
    const auto found = std::find(labels.names.begin(), labels.names.end(), text.substr(0, equals));
    if (found == labels.names.end())
      return error_at("--threshold", "no label {}; the labels are {}", quote(text.substr(0, equals)),
                      fmt::format("{}", fmt::join(labels.names, ", ")));
    out.own_[static_cast<size_t>(found - labels.names.begin())] = value;
  }
  return out;
}

std::vector<size_t> LabelThresholds::choose(const std::vector<double>& scores) const {
  std::vector<size_t> out;
  if (several_) {
    for (size_t i = 0; i < scores.size(); ++i)
      if (scores[i] >= (std::isnan(own_[i]) ? general_ : own_[i])) out.push_back(i);
    std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    return out;
  }
  for (const bool with_own : {true, false}) {
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(own_[i]) == with_own || scores[i] < (with_own ? own_[i] : general_)) continue;
      if (out.empty() || scores[i] > scores[out[0]]) out.assign(1, i);
    }
    if (!out.empty()) return out;
  }
  return out;
}

void ClassifyOutput::declare(Options& options, const char* jsonl_help) {
  options.group("Text");
  options.add("--text", &text, "the text; lines of standard input if there is none", "TEXT");
  options.add("-f --file", &files, "read one text per line from a file", "FILE");
  options.add("--jsonl", &jsonl, jsonl_help);
  options.add("--eval", &eval,
              "measure on labelled records (as for classify train): accuracy, each label, the confusion "
              "matrix, the best threshold",
              "FILE");
  options.group("Output");
  options.add(
      "--threshold", &thresholds,
      "give no label below this probability; LABEL=X: give that label from X on, else the best of the "
      "others; may be repeated",
      "X");
  options.add("--scores", &scores,
              "print the score of every label: its probability, for svm its margin; for a tagger, the "
              "probabilities of each word's tags (forward-backward)");
  options.add("--csv", &csv, "write CSV to this file; - for standard output instead of JSON", "FILE");
  options.add("--json", &json, "with --eval: print one JSON object");
}

int ClassifyOutput::run(const ClassLabels& labels, const ClassifyRecords& classify) const {
  if (labels.names.empty() && !thresholds.empty()) return report(needs_labels("--threshold")), 2;
  const auto thresholds_read = LabelThresholds::parse(thresholds, labels);
  if (!thresholds_read.ok()) return report(thresholds_read.error()), 2;
  if (!eval.empty()) {
    if (!text.empty() || !files.empty() || jsonl)
      return report(error_at("--eval", "takes its texts from the file; remove --text, --file and --jsonl")),
             2;
    if (csv == "-") return report(error_at("--csv", "with --eval, name a file")), 2;
    return evaluate(*this, labels, *thresholds_read, classify);
  }
  ResultTable table(labels, false);
  std::optional<FileWriter> file;
  if (!csv.empty() && csv != "-") {
    auto opened = FileWriter::open(csv);
    if (!opened.ok()) return report(opened.error());
    file.emplace(std::move(*opened));
  }
  Status written = Done{};
  bool fits = true, printed = true;
  const auto some = [&](const std::vector<std::string_view>& lines, size_t number) {
    std::vector<Result<Json>> parsed;
    std::vector<Json> records;
    for (const std::string_view line : lines) {
      Result<Json> record = Json{{"text", line}};
      if (jsonl) record = parse_json(std::string(line), "", {size_t{16} << 20, 64});
      if (record.ok() && !record->is_object()) record = error_at("", "a record must be an object");
      if (record.ok()) records.push_back(*record);
      parsed.push_back(std::move(record));
    }
    const auto answers = classify(records);
    std::string out;
    size_t next = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      const size_t at = next;
      if (parsed[i].ok()) ++next;
      if (!parsed[i].ok() || !answers[at].ok()) {
        const Error& error = parsed[i].ok() ? answers[at].error() : parsed[i].error();
        if (csv.empty())
          out += error_line(error, number + i);
        else
          warn(fmt::format("line {}: {}", number + i, error.message));
        continue;
      }
      const auto chosen = thresholds_read->choose(answers[at]->scores);
      if (csv.empty())
        out += dump(answer_json(labels, *answers[at], chosen, scores)) + "\n";
      else if (!has_csv(*answers[at]))
        return fits = false;
      else
        out += table.row(records[at], *answers[at], chosen, "");
    }
    if (!file) return printed = print_out(out);
    written = file->write(out);
    return written.ok();
  };
  Status status = Done{};
  if (!text.empty())
    some({text}, 1);
  else
    status = each_lines(files, [&](const std::vector<std::string_view>& lines, size_t first) {
      for (size_t i = 0; i < lines.size(); i += kTogether)
        if (!some({lines.begin() + static_cast<int64_t>(i),
                   lines.begin() + static_cast<int64_t>(std::min(lines.size(), i + kTogether))},
                  first + i))
          return false;
      return true;
    });
  if (!fits) return report(needs_labels("--csv"));
  if (!printed) return 1;
  if (!status.ok()) return report(status.error());
  if (written.ok() && file) written = file->commit();
  return written.ok() ? 0 : report(written.error());
}

}  // namespace makar
