#include "augment/instructions.h"

#include <algorithm>

#include "augment/words.h"
#include "base/nearest.h"
#include "data/schema.h"

namespace makar {

const std::vector<InstructionTask>& instruction_tasks() {
  static const std::vector<InstructionTask> kTasks = {
      {"sentiment",
       {{"Is the opinion in this text positive or negative? Answer with one of: {labels}.", "{text}",
         "{label}"},
        {"Classify the sentiment of the review. The choices are {labels}.", "{text}", "{label}"},
        {"How does the writer feel about it? Choose from {labels}.", "{text}", "{label}"},
        {"Read the text and name its sentiment ({labels}).", "Text: {text}", "{label}"}}},
      {"topic",
       {{"What is this text about? Choose from {labels}.", "{text}", "{label}"},
        {"Assign one of these categories to the text: {labels}.", "{text}", "{label}"},
        {"Classify the text. The categories are {labels}.", "Text: {text}", "{label}"}}},
      {"question-type",
       {{"What kind of answer does this question ask for? Choose from {labels}.", "{text}", "{label}"},
        {"Classify the question by the type of its answer: {labels}.", "{text}", "{label}"},
        {"Someone asks the question below. Which of {labels} is the answer?", "Question: {text}",
         "{label}"}}},
      {"translation",
       {{"Translate the text.", "{source}", "{target}"},
        {"Write this sentence in the other language.", "{source}", "{target}"},
        {"Give the translation of the following text.", "Text: {source}", "{target}"}}},
      {"summary",
       {{"Summarize the text.", "{source}", "{target}"},
        {"Write a short summary of the following text.", "{source}", "{target}"},
        {"What are the main points of this text?", "{source}", "{target}"}}},
      {"question-answer",
       {{"Answer the question with words of the text.", "{context}\n\nQuestion: {question}", "{answer}"},
        {"Read the text and answer: {question}", "{context}", "{answer}"},
        {"Use the text to answer the question. {question}", "Text: {context}", "{answer}"}}},
  };
  return kTasks;
}

Result<const InstructionTask*> find_task(const std::string& name) {
  std::vector<std::string> known;
  for (const InstructionTask& t : instruction_tasks()) {
    if (name == t.name) return &t;
    known.emplace_back(t.name);
  }
  return error_at("--task", "unknown task '{}'{}; expected one of: {}", name, did_you_mean(name, known),
                  fmt::join(known, ", "));
}

std::string label_name(const Json& record, const LabelNames& names) {
  const Json* label = label_field(record);
  if (!label || label->is_structured() || label->is_null()) return "";
  const std::string text = label->is_string() ? label->get<std::string>() : label->dump();
  const auto it = names.find(text);
  return it == names.end() ? text : it->second;
}

namespace {

// The text of a field of a template.
std::string field_text(const Json& record, const std::string& name, const LabelNames& names) {
  const auto text = [](const Json* value) {
    return value && value->is_string() ? value->get<std::string>() : "";
  };
  if (name == "text") return text(text_field(record));
  if (name == "label") return label_name(record, names);
  if (name == "source") return text(source_field(record));
  if (name == "target") return text(target_field(record));
  if (name == "answer") {  // SQuAD: {"text": ["..."]}, or a list of texts
    const Json* answers = field(record, {"answers", "answer"});
    if (answers && answers->is_object()) answers = field(*answers, {"text"});
    if (answers && answers->is_array() && !answers->empty()) answers = &(*answers)[0];
    return text(answers);
  }
  return text(field(record, {name.c_str()}));
}

Result<std::string> fill_template(const std::string& pattern, const Json& record, const std::string& labels,
                                  const LabelNames& names) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const size_t end = pattern[at] == '{' ? pattern.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      out += pattern[at++];
      continue;
    }
    const std::string name = pattern.substr(at + 1, end - at - 1);
    const std::string value = name == "labels" ? labels : field_text(record, name, names);
    if (value.empty()) return error_at("", "has no '{}'", name);
    out += value;
    at = end + 1;
  }
  return out;
}

}  // namespace

Result<Json> as_instruction(const Json& record, const InstructionTask& task,
                            const std::vector<std::string>& labels, const LabelNames& names, size_t which) {
  const InstructionTemplate& t = task.templates[which % task.templates.size()];
  std::vector<std::string> display_names;
  for (const std::string& label : labels) {
    const auto it = names.find(label);
    display_names.push_back(it == names.end() ? label : it->second);
  }
  const std::string label_list = fmt::format("{}", fmt::join(display_names, ", "));
  MAKAR_TRY(const std::string instruction, fill_template(t.instruction, record, label_list, names));
  MAKAR_TRY(const std::string input, fill_template(t.input, record, label_list, names));
  MAKAR_TRY(const std::string output, fill_template(t.output, record, label_list, names));
  return Json{{"instruction", instruction}, {"input", input}, {"output", output}};
}

std::string numbered_list(const std::vector<std::string>& examples) {
  std::string out;
  size_t number = 0;
  for (const std::string& example : examples) out += fmt::format("{}. {}\n", ++number, example);
  return out + fmt::format("{}.", number + 1);
}

std::string next_instruction(const std::string& continuation) {
  const size_t begin = continuation.find_first_not_of(" \n\t");
  if (begin == std::string::npos) return "";
  const size_t end = std::min(continuation.find('\n', begin), continuation.size());
  const size_t last = continuation.find_last_not_of(" \t\r", end - 1);
  return continuation.substr(begin, last - begin + 1);
}

void InstructionFilter::add_known(const std::string& instruction) {
  known_.push_back(prepare_overlap(Overlap::kRougeL, lowered_ascii(instruction)));
}

std::string InstructionFilter::drop(const std::string& instruction) {
  constexpr size_t kMinWords = 3, kMaxWords = 150, kMaxBytes = 2000;
  const size_t words = WordsOfText::split(instruction).words.size();
  if (words < kMinWords) return "short";
  if (words > kMaxWords || instruction.size() > kMaxBytes) return "long";
  const auto first = static_cast<unsigned char>(instruction[0]);
  if (first < 0x80 && !std::isalnum(first)) return "punctuation";
  // Tasks that a model of text alone cannot do (a part of the list in Wang et al., 2023).
  const std::string lower = lowered_ascii(instruction);
  for (const char* word :
       {"image", "picture", "graph", "plot", "draw", "file", "map", "video", "audio", "music", "go to"})
    if (lower.find(word) != std::string::npos) return "not text";
  OverlapText text = prepare_overlap(Overlap::kRougeL, lower);
  for (const OverlapText& other : known_)
    if (overlap(Overlap::kRougeL, text, other) >= max_similarity_) return "similar";
  known_.push_back(std::move(text));
  return "";
}

}  // namespace makar
