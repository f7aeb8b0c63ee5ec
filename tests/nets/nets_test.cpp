// Small networks: losses against closed forms and finite differences, tables, data that can be fitted,
// autoencoders and GANs on images that are easy to learn; the same results for any number of threads.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "nets/autoencoder.h"
#include "nets/gan.h"
#include "nets/losses.h"
#include "nets/neural_lm.h"
#include "nets/plots.h"
#include "nets/tabular.h"
#include "nets/text_cnn.h"
#include "scratch_folder.h"

using namespace makar;

namespace {

Tensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from(shape, std::span<const float>(values));
}

double loss_value(const std::string& name, const std::vector<float>& x, const std::vector<float>& targets) {
  CpuDevice device(1);
  Context ctx{device};
  return number_loss(ctx, name, tensor_of({static_cast<int64_t>(x.size()), 1}, x), targets).f32()[0];
}

double class_value(const std::string& name, const std::vector<float>& x, int64_t target) {
  CpuDevice device(1);
  Context ctx{device};
  return class_loss(ctx, name, tensor_of({1, static_cast<int64_t>(x.size())}, x), {target}).f32()[0];
}

TEST(Losses, MatchClosedForms) {
  EXPECT_NEAR(loss_value("mse", {1, 3}, {0, 1}), 2.5, 1e-6);
  EXPECT_NEAR(loss_value("mae", {1, -3}, {0, 1}), 2.5, 1e-6);
  EXPECT_NEAR(loss_value("huber", {0.5f, -3}, {0, 0}), (0.125 + 2.5) / 2, 1e-6);
  EXPECT_NEAR(loss_value("log-cosh", {2}, {0}), std::log(std::cosh(2.0)), 1e-6);
  EXPECT_NEAR(loss_value("poisson", {0.5f}, {3}), std::exp(0.5) - 1.5, 1e-6);
  EXPECT_NEAR(class_value("cross-entropy", {0, std::log(19.0f)}, 1), 0.051293, 1e-5);  // probability .95
  EXPECT_NEAR(class_value("hinge", {2, 1.5f, -1}, 0), 0.5, 1e-6);
  EXPECT_NEAR(class_value("squared-hinge", {2, 1.5f, 2}, 0), 0.25 + 1, 1e-6);
  EXPECT_NEAR(class_value("brier", {0, 0}, 1), 0.5, 1e-6);
  EXPECT_NEAR(class_value("binary-cross-entropy", {0, 0}, 1), std::log(2.0), 1e-6);
}

TEST(Losses, GradientsMatchFiniteDifferences) {
  CpuDevice device(1);
  for (const LossKind& kind : loss_kinds()) {
    Tensor x = kind.classes ? tensor_of({2, 3}, {0.3f, -1.2f, 0.8f, 1.1f, 0.2f, -0.4f})
                            : tensor_of({3, 1}, {0.4f, -2.3f, 1.7f});
    const auto value = [&](Context& ctx) {
      return kind.classes ? class_loss(ctx, kind.name, x, {2, 0})
                          : number_loss(ctx, kind.name, x, {0.1f, 1, 2});
    };
    Tape tape(device);
    Context ctx{device, &tape};
    tape.watch(x);
    tape.backward(value(ctx));
    const Tensor gradient = tape.gradient(x);
    for (int64_t i = 0; i < x.count(); ++i) {
      const float original = x.f32()[i];
      Context plain{device};
      x.f32()[i] = original + 1e-2f;
      const double high = value(plain).f32()[0];
      x.f32()[i] = original - 1e-2f;
      const double low = value(plain).f32()[0];
      x.f32()[i] = original;
      EXPECT_NEAR(gradient.f32()[i], (high - low) / 2e-2, 2e-3) << kind.name << " " << i;
    }
  }
}

TEST(Table, NumbersCategoriesAndMissingValuesAreEncoded) {
  ScratchFolder folder;
  const std::string path = folder.path() + "/t.csv";
  ASSERT_TRUE(write_file(path, "size,colour,price\n1,red,10\n3,blue,30\n,red,20\n5,,\n").ok());
  BadRecords bad;
  const auto rows = read_table(path, "price", bad).value();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(bad.count, 1u);
  const TableEncoder e = TableEncoder::fit(rows, false).value();
  EXPECT_EQ(e.width(), 3u);  // blue, red, size
  EXPECT_EQ(e.encode(rows[0], "").value(), (std::vector<float>{0, 1, -1}));
  EXPECT_EQ(e.encode(rows[2], "").value(), (std::vector<float>{0, 1, 0}));
  EXPECT_NEAR(e.number(e.target(rows[1], "").value()), 30, 1e-5);
  EXPECT_EQ(TableEncoder::fit(rows, true)->classes(), (std::vector<std::string>{"10", "20", "30"}));
  const TableEncoder again = TableEncoder::from_json(e.json(), "").value();
  EXPECT_EQ(again.json(), e.json());
  TableRow unencodable;
  unencodable.fields = {{"size", "big"}, {"colour", "green"}};
  EXPECT_FALSE(e.encode(unencodable, "row 9").ok());
  EXPECT_FALSE(read_table(path, "weight", bad).ok());
}

// Points in two rings: no line separates them.
std::vector<TableRow> rings(size_t count) {
  std::vector<TableRow> rows;
  const Rng rng(5, Purpose::kSynthetic);
  for (size_t i = 0; i < count; ++i) {
    const double angle = 6.283185 * rng.uniform_double(2 * i),
                 radius = (i % 2 ? 1.0 : 2.0) + 0.2 * rng.uniform_double(2 * i + 1);
    TableRow row;
    row.fields = {{"x", std::to_string(radius * std::cos(angle))},
                  {"y", std::to_string(radius * std::sin(angle))}};
    row.target = i % 2 ? "inner" : "outer";
    rows.push_back(row);
  }
  return rows;
}

TabularOptions quick_options() {
  TabularOptions o;
  o.target = "t", o.hidden = "16,16", o.training.epochs = 40, o.training.batch = 32;
  o.training.learning_rate = 1e-2;
  return o;
}

TEST(Tabular, ANetworkSeparatesRingsAndALineDoesNot) {
  CpuDevice device(2);
  const auto rows = rings(400);
  TabularOptions o = quick_options();
  const auto net = TabularNet::train(rows, {}, o, device, [](const TabularEpoch&) {});
  ASSERT_TRUE(net.ok());
  EXPECT_GE(net->best().score, 0.97);
  EXPECT_EQ(net->training_rows(), 320u);
  o.hidden = "";
  EXPECT_LT(TabularNet::train(rows, {}, o, device, [](const TabularEpoch&) {})->best().score, 0.75);
}

TEST(Tabular, RegressionFitsRoundTripsAndIgnoresTheThreadCount) {
  std::vector<TableRow> rows;
  for (int i = 0; i < 200; ++i) {
    TableRow row;
    row.fields = {{"x", std::to_string(i * 0.03 - 3)}};
    row.target = std::to_string(100 + 50 * std::sin(i * 0.03 - 3));
    rows.push_back(row);
  }
  TabularOptions o = quick_options();
  o.activation = "tanh", o.training.batch = 8;
  for (const char* loss : {"mse", "mae", "huber", "log-cosh", "poisson"}) {
    o.loss = loss;
    CpuDevice device(2);
    EXPECT_LT(TabularNet::train(rows, {}, o, device, [](const TabularEpoch&) {})->best().score, 8) << loss;
  }
  // Poisson predictions are rates, in the target's unit, also after loading.
  {
    CpuDevice device(1);
    auto net = std::move(*TabularNet::train(rows, {}, o, device, [](const TabularEpoch&) {}));
    ScratchFolder saved;
    ASSERT_TRUE(net.save(saved.path()).ok());
    auto again = TabularNet::load(saved.path());
    ASSERT_TRUE(again.ok()) << again.error().text();
    const auto rates = again->predict(rows, device).value();
    EXPECT_EQ(rates, net.predict(rows, device).value());
    EXPECT_NEAR(rates[48][0], 50, 20);
    auto negative = rows;
    negative[7].target = "-1";
    const auto negative_targets = TabularNet::train(negative, {}, o, device, [](const TabularEpoch&) {});
    ASSERT_FALSE(negative_targets.ok());
    EXPECT_NE(negative_targets.error().text().find("not negative"), std::string::npos);
    o.loss = "log-cosh";
  }
  ScratchFolder folder;
  std::vector<std::vector<std::vector<double>>> predicted;
  for (const int threads : {1, 3}) {
    CpuDevice device(threads);
    o.batch_norm = true, o.dropout = 0.1, o.training.epochs = 5;
    TabularNet net = std::move(*TabularNet::train(rows, {}, o, device, [](const TabularEpoch&) {}));
    predicted.push_back(net.predict(rows, device).value());
    ASSERT_TRUE(net.save(folder.path()).ok());
    TabularNet again = std::move(*TabularNet::load(folder.path()));
    EXPECT_EQ(again.predict(rows, device).value(), predicted.back());
  }
  EXPECT_EQ(predicted[0], predicted[1]);
}

// Images of 6 x 6: a bright row or a bright column.
Numbers bars(size_t count) {
  Numbers out;
  out.count = count, out.width = 36, out.height = out.columns = 6;
  out.values.assign(count * 36, 0.05f);
  const Rng rng(9, Purpose::kSynthetic);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = rng.bits(i)[0] % 12;
    for (size_t j = 0; j < 6; ++j) out.values[i * 36 + (at < 6 ? at * 6 + j : j * 6 + at - 6)] = 0.95f;
  }
  return out;
}

TEST(Autoencoder, EveryKindLearnsBars) {
  CpuDevice device(2);
  const Numbers data = bars(600), test = bars(100);
  double dense = 0;
  for (const char* kind : {"undercomplete", "sparse-l1", "sparse-kl", "denoising", "variational"}) {
    AutoencoderOptions o;
    if (std::string(kind) == "sparse-kl") o.penalty = 1;  // a small code
    o.kind = kind, o.hidden = "48", o.code = 12, o.training.epochs = 30, o.training.learning_rate = 5e-3;
    auto net = Autoencoder::train(data, test, o, device, [](const CodeEpoch&) {});
    ASSERT_TRUE(net.ok()) << kind;
    // The entropy of the pixels is 7.1 nats per image, and a model that ignores its input needs at least 15.
    EXPECT_LT(net->epochs().back().reconstruction, 11) << kind;
    EXPECT_GT(net->epochs().back().reconstruction, 7.1) << kind;
    const double active = net->activity(test, device);
    if (std::string(kind) == "undercomplete") dense = active;
    if (std::string(kind).starts_with("sparse")) EXPECT_LT(active, 0.7 * dense) << kind;
  }
}

TEST(Autoencoder, IsTheSameForAnyNumberOfThreads) {
  std::vector<std::string> files;
  for (const int threads : {1, 3}) {
    CpuDevice device(threads);
    AutoencoderOptions o;
    o.kind = "variational", o.hidden = "16", o.code = 4, o.training.epochs = 2;
    auto net = std::move(*Autoencoder::train(bars(100), bars(20), o, device, [](const CodeEpoch&) {}));
    ScratchFolder folder;
    ASSERT_TRUE(net.save(folder.path()).ok());
    files.push_back(read_file(folder.path() + "/model.safetensors").value());
  }
  EXPECT_EQ(files[0], files[1]);
}

TEST(Gan, SamplesResembleTheData) {
  CpuDevice device(2);
  const Numbers data = bars(512);
  for (const bool conv : {false, true}) {
    GanOptions o;
    o.kind = conv ? "conv" : "mlp", o.generator = conv ? "24" : "32,48",
    o.discriminator = conv ? "24" : "48,32";
    o.code = 8, o.training.epochs = conv ? 30 : 40, o.training.batch = 32, o.training.learning_rate = 2e-3;
    auto gan = Gan::train(data, o, device, [](const GanEpoch&, const Gan::Preview&) {});
    ASSERT_TRUE(gan.ok()) << gan.error().text();
    const std::vector<float> samples = gan->sample(64, 3, device);
    // A bar image has 6 bright pixels; noise has 18.
    double bright = 0;
    for (const float v : samples) bright += v > 0.5f;
    EXPECT_GT(bright / 64, 2) << o.kind;
    EXPECT_LT(bright / 64, 12) << o.kind;
    EXPECT_NE(gan->sample(1, 1, device), gan->sample(1, 2, device));
  }
}

TEST(Gan, IsTheSameForAnyNumberOfThreads) {
  std::vector<std::string> files;
  for (const int threads : {1, 3}) {
    CpuDevice device(threads);
    GanOptions o;
    o.generator = "5", o.discriminator = "6", o.code = 4, o.training.epochs = 2, o.training.batch = 16;
    auto gan = std::move(*Gan::train(bars(64), o, device, [](const GanEpoch&, const Gan::Preview&) {}));
    ScratchFolder folder;
    ASSERT_TRUE(gan.save(folder.path()).ok());
    files.push_back(read_file(folder.path() + "/model.safetensors").value());
  }
  EXPECT_EQ(files[0], files[1]);
}

// Networks that were saved and loaded give the same results; a description that does not fit the weights is
// an error.
TEST(Nets, SavedNetworksRoundTrip) {
  CpuDevice device(1);
  GanOptions o;
  o.generator = "5", o.discriminator = "6", o.code = 4, o.training.epochs = 1, o.training.batch = 16;
  ScratchFolder folder;
  auto gan = std::move(*Gan::train(bars(64), o, device, [](const GanEpoch&, const Gan::Preview&) {}));
  ASSERT_TRUE(gan.save(folder.path()).ok());
  auto read = Gan::load(folder.path());
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->sample(5, 1, device), gan.sample(5, 1, device));
  const Json good = *read_json(folder.path() + "/net.json");
  const auto fails = [&](const Json& json, const char* message) {
    folder.write("net.json", json.dump());
    const auto broken = Gan::load(folder.path());
    ASSERT_FALSE(broken.ok()) << json;
    EXPECT_NE(broken.error().text().find(message), std::string::npos) << broken.error().text();
  };
  const auto with_value = [&](const char* path, const Json& value) {
    Json out = good;
    out[Json::json_pointer(path)] = value;
    return out;
  };
  fails(with_value("/height", 8), "pixels");
  fails(with_value("/height", -1), "'height'");
  fails(with_value("/generator/channels", {1'000'000'000}), "channels");
  fails(with_value("/generator/channels", {6}), "shape");
  fails(with_value("/generator", 3), "widths");
  fails(with_value("/kind", "autoencoder"), "adversarial");
  AutoencoderOptions a;
  a.kind = "variational", a.hidden = "16", a.code = 4, a.training.epochs = 1;
  auto net = std::move(*Autoencoder::train(bars(100), bars(20), a, device, [](const CodeEpoch&) {}));
  ASSERT_TRUE(net.save(folder.path()).ok());
  auto again = Autoencoder::load(folder.path());
  ASSERT_TRUE(again.ok()) << again.error().text();
  Context ctx{device};
  const Numbers images = bars(3);
  const std::vector<size_t> examples = {0, 1, 2};
  const Tensor before = net.encode(ctx, images.rows(device, examples)),
               after = again->encode(ctx, images.rows(device, examples));
  EXPECT_TRUE(std::equal(before.span().begin(), before.span().end(), after.span().begin()));
  Json mismatched = *read_json(folder.path() + "/net.json");
  mismatched["decoder"]["widths"][0] = 5;
  folder.write("net.json", mismatched.dump());
  EXPECT_FALSE(Autoencoder::load(folder.path()).ok());
}

TEST(Gan, InvalidOptionsAreErrors) {
  CpuDevice device(1);
  const auto message = [&](auto change) {
    GanOptions o;
    o.generator = o.discriminator = "4", o.training.batch = 8, o.training.epochs = 1;
    change(o);
    const auto gan = Gan::train(bars(16), o, device, [](const GanEpoch&, const Gan::Preview&) {});
    return gan.ok() ? "" : gan.error().text();
  };
  EXPECT_EQ(message([](GanOptions&) {}), "");
  EXPECT_NE(message([](GanOptions& o) { o.generator = "8,4"; }).find("multiples of 4"), std::string::npos);
  EXPECT_NE(message([](GanOptions& o) { o.kind = "con"; }).find("did you mean"), std::string::npos);
  EXPECT_NE(message([](GanOptions& o) { o.discriminator_rate = -1; }).find("`discriminator_learning_rate`"),
            std::string::npos);
  EXPECT_NE(message([](GanOptions& o) { o.training.batch = 17; }).find("`batch_size`"), std::string::npos);
}

TEST(TextCnn, WindowsOfWordsSeparateTextsThatSingleWordsDoNot) {
  // "not good" is negative and "not bad" positive: no word alone decides.
  TextsWithLabels data;
  for (int i = 0; i < 40; ++i)
    for (const auto& [text, label] :
         {std::pair("a good film {}", "pos"), std::pair("a bad film {}", "neg"),
          std::pair("not good film {}", "neg"), std::pair("not bad film {}", "pos")})
      data.texts.push_back(fmt::format(fmt::runtime(text), i)), data.labels.emplace_back(label);
  TextCnnOptions o;
  o.width = 16, o.filters = 8, o.dropout = 0.1, o.training.epochs = 30, o.training.learning_rate = 1e-2;
  std::vector<std::string> files;
  for (const int threads : {1, 3}) {
    CpuDevice device(threads);
    auto net = TextCnn::train(data, o, device, [](const EpochResult&) {});
    ASSERT_TRUE(net.ok());
    EXPECT_EQ(net->accuracy(data, device), 1);
    ScratchFolder folder;
    ASSERT_TRUE(net->save(folder.path()).ok());
    files.push_back(read_file(folder.path() + "/model.safetensors").value());
    auto again = TextCnn::load(folder.path());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->classify({"not good", "", "x"}, device), net->classify({"not good", "", "x"}, device));
  }
  EXPECT_EQ(files[0], files[1]);
}

// Without windows, the classifier is a function of the mean of the words' vectors: order and repetition of
// the whole text change nothing.
TEST(TextCnn, TheMeanOfVectorsIgnoresOrder) {
  TextsWithLabels data;
  for (int i = 0; i < 40; ++i)
    for (const auto& [text, label] : {std::pair("a good film {}", "pos"), std::pair("a bad film {}", "neg")})
      data.texts.push_back(fmt::format(fmt::runtime(text), i)), data.labels.emplace_back(label);
  TextCnnOptions o;
  o.windows.clear();
  o.width = 16, o.dropout = 0.1, o.training.epochs = 20, o.training.learning_rate = 1e-2;
  CpuDevice device(2);
  auto net = TextCnn::train(data, o, device, [](const EpochResult&) {});
  ASSERT_TRUE(net.ok());
  EXPECT_EQ(net->accuracy(data, device), 1);
  const auto p = net->classify({"good film", "film good", "good film film good", ""}, device);
  for (size_t label = 0; label < 2; ++label) {
    EXPECT_NEAR(p[0][label], p[1][label], 1e-6);
    EXPECT_NEAR(p[0][label], p[2][label], 1e-6);
  }
  ScratchFolder folder;
  ASSERT_TRUE(net->save(folder.path()).ok());
  auto again = TextCnn::load(folder.path());
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->classify({"not good", ""}, device), net->classify({"not good", ""}, device));
}

TEST(NeuralLm, LearnsAContextAndItsProbabilitiesSumToOne) {
  // After "a b" follows c, after "x b" follows y: two words of context are needed.
  std::vector<std::string> sentences;
  for (int i = 0; i < 100; ++i) sentences.push_back(i % 2 ? "a b c" : "x b y");
  NeuralLmOptions o;
  o.context = 2, o.width = 8, o.hidden = 16, o.training.epochs = 60, o.training.batch = 64,
  o.training.learning_rate = 1e-2;
  CpuDevice device(2);
  auto net = NeuralLm::train(sentences, o, device, [](const EpochResult&) {});
  ASSERT_TRUE(net.ok());
  // One of two first words, then everything is determined: perplexity 2^(1/4) per word with the end.
  const LmScore score = net->score(sentences, device);
  EXPECT_EQ(score.words, 400);
  EXPECT_NEAR(score.perplexity, std::pow(2.0, 0.25), 0.02);
  for (uint64_t i = 0; i < 5; ++i) {
    const std::string sentence = net->generate(1, i, 20, device);
    EXPECT_TRUE(sentence == "a b c" || sentence == "x b y") << sentence;
  }
  EXPECT_EQ(net->generate(1, 0, 20, device), net->generate(1, 0, 20, device));
  o.context = 1;
  auto one_word_context = NeuralLm::train(sentences, o, device, [](const EpochResult&) {});
  EXPECT_NEAR(one_word_context->score(sentences, device).perplexity, std::pow(2.0, 0.5), 0.02);
}

TEST(Plots, PngHoldsThePixels) {
  const std::string png = png_bytes({0, 50, 100, 150, 200, 250}, 3, 2);
  EXPECT_EQ(png.substr(1, 3), "PNG");
  const size_t at = png.find("IDAT");
  std::string rows(8, '\0');
  uLongf size = 8;
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(rows.data()), &size,
                       reinterpret_cast<const Bytef*>(png.data()) + at + 4,
                       static_cast<uLong>(png.size() - at - 4)),
            Z_OK);
  EXPECT_EQ(rows, std::string("\0\0\x32\x64\0\x96\xC8\xFA", 8));
  EXPECT_GT(image_grid(std::vector<float>(3 * 4, 0.5f), 3, 2, 2, 2).size(), 50u);
}

}  // namespace
