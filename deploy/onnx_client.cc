/* Reads words and prints how probable a language model finds each of them, by
   onnxruntime's library for C++ and nothing else.

     c++ -std=c++17 -O2 -I$ONNXRUNTIME_HOME/include onnx_client.cc \
         -L$ONNXRUNTIME_HOME/lib -lonnxruntime -o onnx_client
     ./onnx_client model.onnx < words.txt

   `memlm export RUN model.onnx --format=onnx` writes such a model. With another
   argument, a file of this name gets the log-probabilities of all words at each
   step, as float32. */
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

using Clock = std::chrono::steady_clock;
constexpr auto FLOAT = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
constexpr auto INT32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
constexpr auto INT64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;

void require(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

// The strings of a list in JSON without escapes of characters by number.
std::vector<std::string> strings(const std::string& json) {
  std::vector<std::string> found;
  bool inside = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      inside = !inside;
      if (inside) found.emplace_back();
    } else if (inside) {
      found.back() += json[json[i] == '\\' ? ++i : i];
    }
  }
  return found;
}

int run(const char* path, const char* written) {
  Ort::Env environment;
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  Ort::Session session(environment, path, options);
  Ort::AllocatorWithDefaultOptions allocator;
  auto metadata = session.GetModelMetadata();
  auto fact = [&](const char* name) {
    auto text = metadata.LookupCustomMetadataMapAllocated(name, allocator);
    require(bool(text), std::string("the model has no metadata: ") + name);
    return std::string(text.get());
  };
  require(fact("initial_state") == "{}", "its state does not begin with zeros");
  const auto tokens = strings(fact("tokens"));
  std::unordered_map<std::string, int64_t> ids;
  for (const auto& token : tokens) ids.emplace(token, ids.size());
  int64_t id = std::stoll(fact("end_of_sentence_id"));
  const int64_t unknown = std::stoll(fact("unknown_id"));
  const int64_t size = tokens.size();
  require(0 <= std::min(id, unknown) && std::max(id, unknown) < size,
          "its tokens are fewer than its metadata says");

  // Inputs and outputs by name; each state begins with zeros.
  std::vector<std::string> names, answers;
  std::vector<Ort::Value> values;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    names.push_back(session.GetInputNameAllocated(i, allocator).get());
    auto type = session.GetInputTypeInfo(i);
    auto about = type.GetTensorTypeAndShapeInfo();
    auto shape = about.GetShape();
    shape[0] = 1;
    const auto kind = about.GetElementType();
    const bool is_word = names[i] == "token_ids";
    require(is_word ? kind == INT64 : kind == FLOAT || kind == INT32,
            names[i] + " has another type");
    values.push_back(
        Ort::Value::CreateTensor(allocator, shape.data(), shape.size(), kind));
    auto bytes = values[i].GetTensorTypeAndShapeInfo().GetElementCount() *
                 (is_word ? sizeof(int64_t) : sizeof(float));
    std::memset(values[i].GetTensorMutableRawData(), 0, bytes);
  }
  for (size_t i = 0; i < session.GetOutputCount(); ++i)
    answers.push_back(session.GetOutputNameAllocated(i, allocator).get());
  std::vector<const char*> in, out;
  for (const auto& name : names) in.push_back(name.c_str());
  for (const auto& name : answers) out.push_back(name.c_str());
  const auto place = [](const auto& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) - list.begin();
  };
  const size_t word_place = place(names, "token_ids");
  const size_t scores_place = place(answers, "log_probabilities");

  std::ofstream file;
  if (written) file.open(written, std::ios::binary);
  auto start = Clock::now();
  size_t steps = 0;
  for (std::string word;; ++steps) {
    values.at(word_place).GetTensorMutableData<int64_t>()[0] = id;
    auto found = session.Run(Ort::RunOptions{nullptr}, in.data(), values.data(),
                             in.size(), out.data(), out.size());
    const auto about = found.at(scores_place).GetTensorTypeAndShapeInfo();
    require(about.GetElementType() == FLOAT &&
                about.GetElementCount() == tokens.size(),
            "it has not one score for each token");
    const float* scores = found[scores_place].GetTensorData<float>();
    if (written)
      file.write(reinterpret_cast<const char*>(scores),
                 tokens.size() * sizeof(float));
    const auto best = std::max_element(scores, scores + tokens.size()) - scores;
    // The first step takes longer.
    if (steps == 0) start = Clock::now();
    if (!(std::cin >> word)) break;
    const auto known = ids.find(word);
    id = known == ids.end() ? unknown : known->second;
    std::cout << word << '\t' << scores[id] << '\t' << tokens[best] << '\n';
    for (size_t i = 0; i < names.size(); ++i)
      if (i != word_place)
        values[i] = std::move(found.at(place(answers, "next_" + names[i])));
  }
  const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
  std::cerr << taken.count() / std::max<size_t>(steps, 1) << " ms a word\n";
  return file.good() ? 0 : 1;
}

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    std::cerr << "usage: onnx_client model.onnx [log_probabilities] < words\n";
    return 2;
  }
  try {
    return run(arguments[1], count > 2 ? arguments[2] : nullptr);
  } catch (const std::exception& error) {
    std::cerr << "onnx_client: " << error.what() << '\n';
    return 1;
  }
}
