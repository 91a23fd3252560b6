// What llama.cpp's server calls where third_party/patches has it do so: the plan that a request is computed under, and the
// steering around its decodes.
//
// A request takes its plan when it arrives and keeps it to its end, whatever is loaded, changed or removed meanwhile. The
// states in a slot and in the prompt cache carry the plan they were computed under, and serve that plan alone.

#pragma once

#include "json.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

struct common_batch;
struct common_params;
struct ggml_tensor;
struct llama_model;

namespace plumb {

struct plan;
using plan_ptr = std::shared_ptr<const plan>; // null: the model as it is

bool same_plan(const plan_ptr & a, const plan_ptr & b);

// Whether rows of the two may stand in one batch. tokens_alone: the batch has neither embeddings for rows nor for outputs.
bool can_share_batch(const plan_ptr & a, const plan_ptr & b, bool tokens_alone);

// What is enabled at the moment.
plan_ptr active_plan();

// What the body's field "steering" asks for, or, without it, what is enabled. Throws std::invalid_argument.
plan_ptr requested_plan(const common_json & body);

common_json plan_json(const plan_ptr & p); // [{"name": …, "strength": …}, …]
std::string steering_metrics();            // in Prometheus' text format

// Once the model and its context are there. False, after a line in the log, if a loaded steering does not fit the model.
bool model_loaded(const llama_model * model, const common_params & params);

// For common_params: cb_eval. It needs no user data.
bool eval_callback(ggml_tensor * tensor, bool ask, void *);

// Around every decode of the steered context. begin_chunk is for a decode that has all its rows under one plan. end_decode
// takes the decode's status and is false if it went through without being steered as planned: steering_problem says why.
void        begin_decode(const common_batch & batch, const std::function<plan_ptr(int32_t)> & plan_of_sequence);
void        begin_chunk(const plan_ptr & p);
bool        end_decode(int32_t status);
std::string steering_problem(); // of the last end_decode; empty, or a sentence with a space before it

} // namespace plumb
