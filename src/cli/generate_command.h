// Shared by the files of makar generate: its options, encoding of prompts, answers as JSON.
#pragma once
#include "cli/generate_controlled.h"
#include "cli/generation_flags.h"
#include "cli/rank_flags.h"
#include "eval/watermark.h"

namespace makar {

struct GenerateCommand {
  ModelOptions model;
  GenerationFlags flags;
  std::vector<std::string> words, files, images;
  std::string ids, prompt;
  int64_t parallel = 32;  // requests of --jsonl in a batch
  bool json = false, jsonl = false, chat = false, parse_special = false;
  bool tokens_given = false;  // --max-tokens is set
  WatermarkOptions watermark;
  ControlFlags control;
  RankFlags rank;
};

Json user_turn(const std::string& text);  // a conversation of one user message
// Encodes a prompt, through the chat template with --chat; its images become part of `o`.
Result<std::vector<int64_t>> encode_prompt(const LanguageModel& language, const std::string& text,
                                           const std::vector<std::string>& image_paths,
                                           const GenerateCommand& c, TextGenerationOptions& o);
// The watermark of --watermark-key, which starts from the last token of the prompt.
Status add_watermark(const GenerateCommand& c, const std::vector<int64_t>& prompt, TextGenerationOptions& o);
Json answer_json(const TextGenerationResult& result, const LanguageModel& language, bool logprobs);

// --jsonl: answers one request per line. Returns the exit code.
int run_lines(Engine& engine, const LanguageModel& language, const GenerateCommand& c);

}  // namespace makar
