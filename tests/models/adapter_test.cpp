// PEFT adapters: attached, merged, saved and loaded, trained further.
#include "models/adapter.h"

#include "formats/safetensors.h"
#include "kernels/cpu_device.h"
#include "models/subjects.h"
#include "optim/optimizer.h"
#include "scratch_folder.h"

namespace makar {
namespace {

const std::string kPeft = std::string(MAKAR_TEST_GOLDEN) + "/peft/";
const std::vector<std::string> kFolders = {"dora", "lora-all-linear-rslora", "lora-attention",
                                           "lora-embed-modules-to-save"};

class Adapters : public testing::Test {
 protected:
  static LoadedModel base() {
    auto loaded = load_model(kPeft + "base", {true});
    check(loaded.ok(), loaded.ok() ? "" : loaded.error().text());
    return std::move(*loaded);
  }
  Inputs inputs(const LoadedModel& loaded) {
    Inputs in;
    in.source.add(random_ids(loaded.model->spec(), 40, 5));
    in.source.add(random_ids(loaded.model->spec(), 9, 6));
    return in;
  }
  Tensor run(const LoadedModel& loaded) { return logits(*loaded.model, device_, inputs(loaded)); }
  // Trains the trainable parameters for some steps.
  void train(const LoadedModel& loaded, int steps) {
    auto optimizer = Optimizer::make(loaded.model->parameters(), {});
    ASSERT_TRUE(optimizer.ok());
    const Inputs in = inputs(loaded);
    for (int i = 0; i < steps; ++i) {
      Tape tape(device_);
      loaded.model->parameters().clear_gradients();
      loaded.model->parameters().watch(tape);
      Context ctx{device_, &tape};
      ForwardContext f{ctx};
      tape.backward(*head_loss(f, *loaded.model, in, labels_of(in.source)));
      loaded.model->parameters().collect(tape);
      optimizer->step(device_, 1e-2);
    }
    loaded.model->parameters().clear_gradients();
  }
  // Saves the adapter and loads it onto a new base: the same bits.
  void expect_round_trip(const LoadedModel& loaded, const AdapterConfig& config, LoadedModel reloaded) {
    ScratchFolder folder;
    const Status status = save_adapter(loaded, config, folder.path());
    ASSERT_TRUE(status.ok()) << status.error().text();
    const auto reloaded_config = load_adapter(reloaded, folder.path(), device_);
    ASSERT_TRUE(reloaded_config.ok()) << reloaded_config.error().text();
    EXPECT_TRUE(same_bits(run(reloaded), run(loaded)));
    EXPECT_EQ(reloaded_config->rank, config.rank);
    EXPECT_EQ(reloaded_config->targets, config.targets);
    EXPECT_EQ(reloaded_config->scale(), config.scale());
    EXPECT_EQ(reloaded_config->dora, config.dora);
  }
  CpuDevice device_{2};
};

TEST_F(Adapters, PeftFilesRoundTrip) {
  for (const auto& name : kFolders) {
    SCOPED_TRACE(name);
    const LoadedModel loaded = base();
    const Tensor base_logits = run(loaded);
    const auto config = load_adapter(loaded, kPeft + name, device_);
    ASSERT_TRUE(config.ok()) << config.error().text();
    EXPECT_FALSE(same_bits(run(loaded), base_logits)) << "the adapter has no effect";
    expect_round_trip(loaded, *config, base());
    // The same tensors, name for name and bit for bit.
    ScratchFolder folder;
    ASSERT_TRUE(save_adapter(loaded, *config, folder.path()).ok());
    const auto saved_file = Safetensors::open(folder / "adapter_model.safetensors"),
               peft_file = Safetensors::open(kPeft + name + "/adapter_model.safetensors");
    ASSERT_TRUE(saved_file.ok() && peft_file.ok());
    EXPECT_EQ((*saved_file)->names().size(), (*peft_file)->names().size());
    for (const auto& tensor : (*peft_file)->names()) {
      ASSERT_TRUE((*saved_file)->has(tensor)) << tensor;
      EXPECT_TRUE(same_bits(*(*saved_file)->tensor(tensor), *(*peft_file)->tensor(tensor))) << tensor;
    }
  }
}

TEST_F(Adapters, MergedEqualsAttached) {
  for (const auto& name : kFolders) {
    SCOPED_TRACE(name);
    const LoadedModel loaded = base();
    ASSERT_TRUE(load_adapter(loaded, kPeft + name, device_).ok());
    const Tensor unmerged = run(loaded);
    merge_adapter(loaded, device_);
    const Tensor merged = run(loaded);
    EXPECT_LT(relative_error(merged, unmerged), 2e-6);
    // A merged model is an ordinary model: it saves and loads like one.
    ScratchFolder folder;
    ASSERT_TRUE(save_model(folder.path(), *loaded.model, *loaded.family).ok());
    const auto reloaded = load_model(folder.path());
    ASSERT_TRUE(reloaded.ok()) << reloaded.error().text();
    EXPECT_TRUE(same_bits(run(*reloaded), merged));
  }
}

TEST_F(Adapters, TrainingContinuesFromASavedAdapter) {
  for (const auto& name : kFolders) {
    SCOPED_TRACE(name);
    const LoadedModel loaded = base();
    const auto config = load_adapter(loaded, kPeft + name, device_);
    ASSERT_TRUE(config.ok());
    std::map<std::string, Tensor> before;
    for (const auto& p : loaded.model->parameters().all()) before[p->name] = p->value.clone();
    train(loaded, 2);
    for (const auto& p : loaded.model->parameters().all())
      EXPECT_EQ(same_bits(p->value, before[p->name]), !p->trainable) << p->name;
    expect_round_trip(loaded, *config, base());
  }
}

// GPT-2 stores query, key and value in one [in, out] matrix: one A for the three, B split into three.
TEST_F(Adapters, FusedGpt2AttentionTrainsMergesAndRoundTrips) {
  for (const bool dora : {false, true}) {
    const LoadedModel loaded = small_model(small_config("gpt2"));
    const Tensor base_logits = run(loaded);
    AdapterConfig config;
    config.rank = 3, config.alpha = 6, config.targets = {"c_attn"}, config.dora = dora;
    ASSERT_TRUE(add_adapter(loaded, config, device_, 9).ok());
    EXPECT_LT(relative_error(run(loaded), base_logits), 1e-6) << "B is zero: a new adapter changes nothing";
    train(loaded, 3);
    const Tensor trained = run(loaded);
    EXPECT_GT(relative_error(trained, base_logits), 1e-4);
    expect_round_trip(loaded, config, small_model(small_config("gpt2")));
    ScratchFolder folder;
    ASSERT_TRUE(save_adapter(loaded, config, folder.path()).ok());
    const auto file = Safetensors::open(folder / "adapter_model.safetensors");
    ASSERT_TRUE(file.ok());
    const std::string prefix = "base_model.model.transformer.h.1.attn.c_attn.";
    EXPECT_TRUE(((*file)->entry(prefix + "lora_A.weight")->shape == Shape{3, 32}));
    EXPECT_TRUE(((*file)->entry(prefix + "lora_B.weight")->shape == Shape{96, 3}));
    EXPECT_EQ((*file)->names().size(), dora ? 6u : 4u);
    // PEFT needs to know that the base stores the matrix transposed.
    const auto json = read_json(folder / "adapter_config.json");
    ASSERT_TRUE(json.ok());
    EXPECT_TRUE((*json)["fan_in_fan_out"].get<bool>());
    merge_adapter(loaded, device_);
    EXPECT_LT(relative_error(run(loaded), trained), 2e-6);
  }
}

// "all-linear" selects every linear layer except the head, and no embedding.
TEST_F(Adapters, AllLinearExcludesEmbeddingsAndHeads) {
  for (const char* family : {"gpt2", "llama", "gemma2", "mixtral", "t5", "bert"}) {
    SCOPED_TRACE(family);
    const LoadedModel loaded = small_model(small_config(family));
    AdapterConfig config;
    config.targets = {"all-linear"};
    ASSERT_TRUE(add_adapter(loaded, config, device_, 1).ok());
    int count = 0;
    for (const auto& p : loaded.model->parameters().all()) {
      if (!p->name.starts_with("adapter.")) continue;
      for (const char* other : {"wte", "embed_tokens", "shared", "lm_head", "word_embeddings"})
        EXPECT_EQ(p->name.find(other), std::string::npos) << p->name;
      ++count;
    }
    EXPECT_GT(count, 8);
  }
}

TEST_F(Adapters, MergingDropsPackedWeights) {
  const LoadedModel loaded = base();
  loaded.model->pack(device_);
  ASSERT_TRUE(load_adapter(loaded, kPeft + "lora-attention", device_).ok());
  const Tensor unmerged = run(loaded);
  merge_adapter(loaded, device_);
  EXPECT_LT(relative_error(run(loaded), unmerged), 2e-6);
}

// Rows select among several loaded adapters; each row gets the same bits as with that adapter attached.
TEST_F(Adapters, AdaptersPerRowEqualAttachedOnes) {
  const std::string folders[] = {kPeft + "lora-attention", kPeft + "lora-all-linear-rslora"};
  const Tensor base_logits = run(base());
  std::vector<Tensor> expected;
  for (const std::string& folder : folders) {
    const LoadedModel loaded = base();
    ASSERT_TRUE(load_adapter(loaded, folder, device_).ok());
    expected.push_back(run(loaded));
  }
  const LoadedModel loaded = base();
  AdapterSet set(loaded, device_);
  for (const std::string& folder : folders) ASSERT_TRUE(set.load(folder).ok());
  set.add_row_adapters();
  EXPECT_TRUE(same_bits(run(loaded), base_logits)) << "no row selects an adapter";
  const Inputs in = inputs(loaded);
  for (int32_t i = 0; i < 2; ++i) {
    Context ctx{device_};
    const std::vector<int32_t> rows(static_cast<size_t>(in.source.rows()), i);
    ctx.row_adapters = rows;
    ForwardContext f{ctx};
    EXPECT_TRUE(same_bits(loaded.model->lm_logits(ctx, loaded.model->hidden(f, in)),
                          expected[static_cast<size_t>(i)]));
  }
  EXPECT_EQ(set.load(kPeft + "dora").error().kind, Error::Kind::kUnsupported);
}

TEST_F(Adapters, SeveralAdaptersAreSwitchedStackedAndMerged) {
  const std::string first = kPeft + "lora-attention", second = kPeft + "lora-all-linear-rslora";
  const auto run_alone = [&](const std::string& folder) {
    const LoadedModel loaded = base();
    check(load_adapter(loaded, folder, device_).ok(), "cannot load the adapter");
    return run(loaded);
  };
  const LoadedModel loaded = base();
  const Tensor base_logits = run(loaded);
  AdapterSet set(loaded, device_);
  ASSERT_TRUE(set.load(first).ok());
  ASSERT_TRUE(set.load(second).ok());
  EXPECT_TRUE(same_bits(run(loaded), base_logits)) << "a loaded adapter is not active yet";
  const auto run_with = [&](float a, float b) {
    set.use({a, b});
    return run(loaded);
  };
  const Tensor both = run_with(1, 1);
  EXPECT_TRUE(same_bits(run_with(1, 0), run_alone(first)));
  EXPECT_TRUE(same_bits(run_with(0, 1), run_alone(second)));
  EXPECT_TRUE(same_bits(run_with(0, 0), base_logits));
  EXPECT_TRUE(same_bits(run_with(1, 1), both));
  EXPECT_GT(relative_error(both, run_alone(first)), 1e-4);
  EXPECT_GT(relative_error(both, run_alone(second)), 1e-4);
  EXPECT_LT(relative_error(run_with(0.5f, 0), base_logits), relative_error(run_with(1, 0), base_logits));
  // The same adapters from command-line arguments with weights, then merged.
  const Tensor weighted = run_with(0.25f, -0.5f);
  const LoadedModel by_arguments = base();
  const Status status = load_adapters(by_arguments, {first + ":0.25", second + ":-0.5"}, device_);
  ASSERT_TRUE(status.ok()) << status.error().text();
  EXPECT_TRUE(same_bits(run(by_arguments), weighted));
  merge_adapter(by_arguments, device_);
  EXPECT_LT(relative_error(run(by_arguments), weighted), 2e-6);
  // Stacked adapters equal the two merged one after the other.
  const LoadedModel in_turn = base();
  for (const auto& folder : {first, second}) {
    ASSERT_TRUE(load_adapter(in_turn, folder, device_).ok());
    merge_adapter(in_turn, device_);
  }
  EXPECT_LT(relative_error(both, run(in_turn)), 2e-6);
}

TEST_F(Adapters, AdaptersThatCannotBeStackedAreErrors) {
  const auto load_error = [&](const std::vector<std::string>& choices) {
    const Status s = load_adapters(base(), choices, device_);
    return s.ok() ? std::string("it stacks") : s.error().text();
  };
  const std::string lora = kPeft + "lora-attention", dora = kPeft + "dora",
                    with_modules = kPeft + "lora-embed-modules-to-save";
  EXPECT_EQ(load_error({dora}), "it stacks");
  EXPECT_EQ(load_error({with_modules}), "it stacks");
  EXPECT_EQ(load_error({lora, lora}), "it stacks");
  for (const auto& choices :
       {std::vector{lora, dora}, std::vector{dora, lora}, std::vector{lora, with_modules},
        std::vector{with_modules, lora}, std::vector{dora + ":0.5"}})
    EXPECT_NE(load_error(choices).find("alone"), std::string::npos) << load_error(choices);
  EXPECT_NE(load_error({lora + ":much"}).find("not a number"), std::string::npos);
  EXPECT_NE(load_error({lora + ":nan"}).find("not a number"), std::string::npos);
}

TEST_F(Adapters, BrokenAdaptersAreErrors) {
  const auto load_error = [&](const std::function<void(Json&)>& change) {
    ScratchFolder folder;
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
      std::filesystem::copy(kPeft + "lora-attention/" + file, folder / file);
    auto json = read_json(folder / "adapter_config.json");
    change(*json);
    std::filesystem::remove(folder / "adapter_config.json");
    folder.write("adapter_config.json", json->dump());
    const auto loaded = load_adapter(base(), folder.path(), device_);
    return loaded.ok() ? std::string("it loads") : loaded.error().text();
  };
  const auto expect = [&](const std::function<void(Json&)>& change, const std::string& part) {
    const std::string text = load_error(change);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect([](Json& c) { c["r"] = 0; }, "'r'");
  expect([](Json& c) { c["r"] = 5; }, "lora_A.weight");
  expect([](Json& c) { c["target_modules"] = {"x_proj"}; }, "x_proj");
  expect([](Json& c) { c["target_modules"].push_back("down_proj"); }, "down_proj");
  expect([](Json& c) { c["target_modules"] = {"q_proj"}; }, "describes");
  expect([](Json& c) { c["target_modules"] = 7; }, "'target_modules'");
  expect([](Json& c) { c["peft_type"] = "LOKR"; }, "LOKR");
  expect([](Json& c) { c["rank_pattern"] = {{"q_proj", 2}}; }, "rank_pattern");
  expect([](Json& c) { c["modules_to_save"] = {"nothing"}; }, "nothing");
  expect([](Json& c) { c["use_dora"] = true; }, "lora_magnitude_vector");
  expect([](Json& c) { c["bias"] = "all"; }, "'bias'");
}

}  // namespace
}  // namespace makar
