#include "world/check.h"

#include <algorithm>
#include <utility>

#include "data/byte_stream.h"

namespace makar::world {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// {"answer"}, or {"answers": [{"text"}]} of makar generate.
const std::string* answer_of(const Json& record) {
  const auto text = [](const Json& from, const char* key) -> const std::string* {
    const auto at = from.find(key);
    return at != from.end() && at->is_string() ? at->get_ptr<const std::string*>() : nullptr;
  };
  if (const std::string* found = text(record, "answer")) return found;
  const auto all = record.find("answers");
  if (all == record.end() || !all->is_array() || all->empty() || !all->front().is_object()) return nullptr;
  return text(all->front(), "text");
}

void add(Score& score, const Verdict& v) {
  ++score.answers, score.exact += v.exact ? 1 : 0, score.normalized += v.normalized ? 1 : 0;
}

Result<Verdict> check_record(const DataRecord& r, const WorldOptions& o, uint64_t first) {
  const std::string* answer = answer_of(r.value);
  if (!answer) return error_at("", "expected \"answer\", or \"answers\" of makar generate --jsonl");
  const auto id = r.value.find("id");
  if (id == r.value.end()) return check_answer(o, first + r.line - 1, *answer);
  if (!id->is_string()) return error_at("id", "expected a string");
  return check_answer(id->get_ref<const std::string&>(), *answer);
}

}  // namespace

std::string normalized(std::string_view text) {
  std::string out, word;
  const auto end_word = [&] {
    if (!word.empty() && word.size() <= 2 && word.find_first_not_of("0123456789") == std::string::npos) {
      word = number(std::stoi(word));
      std::replace(word.begin(), word.end(), '-', ' ');
    }
    if (!word.empty() && word != "a" && word != "an" && word != "the") out += (out.empty() ? "" : " ") + word;
    word.clear();
  };
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z')
      word += static_cast<char>(c - 'A' + 'a');
    else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' ||
             static_cast<unsigned char>(c) >= 0x80)
      word += c;
    else
      end_word();
  }
  end_word();
  return out;
}

Verdict check_answer(const WorldOptions& o, uint64_t record, std::string_view answer) {
  const Sample sample(o, record);
  Verdict out{sample.question.kind, sample.answer()};
  out.exact = trimmed(answer) == out.expected;
  Question without_working = sample.question;
  without_working.working.clear();
  const std::string given = normalized(answer);
  const auto words = [&](const std::string& text) { return " " + text + " "; };
  for (const Question* q : {&sample.question, &std::as_const(without_working)})
    for (const bool in_sentence : {false, true}) {
      const std::string right = normalized(q->answer(in_sentence));
      if (given == right)
        out.grade = Grade::kRight;
      else if (q == &sample.question && words(given).find(words(right)) != std::string::npos)
        out.grade = std::max(out.grade, Grade::kRightAmongOthers);
    }
  out.normalized = out.grade == Grade::kRight;
  return out;
}

Result<Verdict> check_answer(const std::string& id, std::string_view answer) {
  MAKAR_TRY(const RecordId parsed, parse_id(id));
  return check_answer(parsed.options, parsed.record, answer);
}

Status check_records(FileReader& reader, const WorldOptions& o, uint64_t first, AnswersReport& report) {
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record, report.bad));
    if (!found) return Done{};
    const auto verdict = check_record(record, o, first);
    if (!verdict.ok()) {
      report.bad.add(record.place(), verdict.error().text());
      continue;
    }
    if (report.keep_grades) {
      const auto id = record.value.find("id");
      report
          .grades[id != record.value.end() ? id->get<std::string>() : record_id(o, first + record.line - 1)] =
          verdict->grade;
    }
    add(report.all, *verdict);
    add(report.kinds[verdict->kind], *verdict);
    if (!verdict->normalized && report.wrong.size() < report.show)
      report.wrong.push_back(fmt::format("{}: {}: expected {}, got {}", record.place(), verdict->kind,
                                         escaped(verdict->expected), escaped(*answer_of(record.value))));
  }
}

Result<Comparison> compare(const AnswersReport& answers, const AnswersReport& others) {
  Comparison out;
  if (answers.grades.size() != others.grades.size())
    return error_at("", "has answers to {} questions, the other file to {}", others.grades.size(),
                    answers.grades.size());
  for (const auto& [id, grade] : answers.grades) {
    const auto other = others.grades.find(id);
    if (other == others.grades.end()) return error_at("", "has no answer to the question {}", id);
    if (grade != other->second)
      ++(grade > other->second ? out.better : out.worse);
    else
      ++(grade == Grade::kRight   ? out.both_right
         : grade == Grade::kWrong ? out.both_wrong
                                  : out.both_among_others);
  }
  return out;
}

Result<AnswersReport> check_answers(const std::string& path, const WorldOptions& o, uint64_t first,
                                    size_t show, bool keep_grades) {
  MAKAR_TRY(auto stream, ByteStream::open(path));
  const auto reader = FileReader::make(std::move(stream), RecordFormat::kJsonl);
  AnswersReport report;
  report.show = show, report.keep_grades = keep_grades;
  MAKAR_RETURN_IF_ERROR(check_records(*reader, o, first, report));
  return report;
}

}  // namespace makar::world
