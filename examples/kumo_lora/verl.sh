#!/usr/bin/env bash
# The LoRA recipe of KUMO's paper for verl; see trl.yaml for what the paper says and what it does not.
#   raycade kumo lab trajectories train.parquet medical --count 99950 --format verl
#   bash examples/kumo_lora/verl.sh
set -euo pipefail
torchrun --standalone --nproc_per_node="${GPUS:-1}" -m verl.trainer.sft_trainer \
    data.train_files=train.parquet \
    data.train_batch_size=8 \
    data.micro_batch_size_per_gpu=1 \
    data.max_length=8192 \
    model.path=Qwen/Qwen2.5-3B-Instruct \
    model.lora_rank=16 \
    model.lora_alpha=32 \
    model.target_modules=all-linear \
    optim.lr=2e-4 \
    optim.weight_decay=0.0 \
    'optim.betas=[0.9,0.999]' \
    optim.lr_warmup_steps_ratio=0.03 \
    optim.lr_scheduler_type=cosine \
    trainer.total_epochs=100 \
    trainer.project_name=kumo \
    trainer.experiment_name=lora \
    "$@"
