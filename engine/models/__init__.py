"""Language models: weights, tokenisation, label probabilities. torch is imported only inside functions."""
