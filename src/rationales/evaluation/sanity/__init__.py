"""Parameter randomisation: do the scores change when the weights of the model do (Adebayo et al. 2018)?"""
